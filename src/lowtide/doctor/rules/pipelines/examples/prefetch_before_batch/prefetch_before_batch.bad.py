import tensorflow as tf
from tensorflow.data import AUTOTUNE, Dataset

one = tf.data.Dataset.range(100).prefetch(tf.data.AUTOTUNE).batch(32)  # bad
two = Dataset.range(100).map(lambda i: i * 2)
two = two.prefetch(10)  # bad
two = two.padded_batch(32)


def pipeline(files):
    records = tf.data.TFRecordDataset(files)
    records = records.prefetch(AUTOTUNE)  # bad
    return records.shuffle(1000).batch(16).repeat()
