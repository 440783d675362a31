import tensorflow as tf
from tensorflow.data import AUTOTUNE, Dataset

one = tf.data.Dataset.range(100).batch(32).prefetch(tf.data.AUTOTUNE)
both = Dataset.range(100).prefetch(10).map(lambda i: i * 2).batch(32).prefetch(AUTOTUNE)
shown = both.unbatch().batch(1)
single = Dataset.range(100).prefetch(10).batch(1)
samples = Dataset.range(100).prefetch(10)


def pipeline(files):
    records = tf.data.TFRecordDataset(files).prefetch(AUTOTUNE)
    records = records.shuffle(1000).batch(16)
    return records.prefetch(AUTOTUNE)
