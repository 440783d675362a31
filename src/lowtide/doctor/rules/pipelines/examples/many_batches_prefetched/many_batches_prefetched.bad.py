import tensorflow as tf
from tensorflow import data

BATCH_SIZE = 64
a = tf.data.Dataset.range(1000).batch(32).prefetch(100)  # bad
b = data.Dataset.range(1000).batch(BATCH_SIZE, drop_remainder=True).prefetch(buffer_size=BATCH_SIZE)  # bad


def pipeline(files, batch_size):
    records = data.TFRecordDataset(files).batch(batch_size)
    return records.prefetch(batch_size)  # bad
