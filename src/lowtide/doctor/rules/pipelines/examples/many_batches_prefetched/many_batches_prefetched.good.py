import tensorflow as tf
from tensorflow import data

AUTOTUNE = data.experimental.AUTOTUNE
a = tf.data.Dataset.range(1000).batch(32).prefetch(2)
b = tf.data.Dataset.range(1000).batch(32).prefetch(AUTOTUNE)
c = tf.data.Dataset.range(1000).prefetch(100)
d = tf.data.Dataset.range(1000).batch(32).prefetch(data.AUTOTUNE)


def pipeline(files, batch_size, ahead):
    return data.TFRecordDataset(files).batch(batch_size).prefetch(ahead)
