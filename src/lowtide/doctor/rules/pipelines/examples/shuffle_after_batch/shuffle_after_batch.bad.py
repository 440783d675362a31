import tensorflow as tf
from tensorflow.data import Dataset

data = tf.data.Dataset.range(1000).batch(32).shuffle(100)  # bad


def pipeline(files):
    images = Dataset.from_tensor_slices(files)
    images = images.batch(16)
    images = images.map(lambda each: each)
    return images.shuffle(50).prefetch(2)  # bad


cached = tf.data.Dataset.range(1000).batch(32).cache().shuffle(10)  # bad
