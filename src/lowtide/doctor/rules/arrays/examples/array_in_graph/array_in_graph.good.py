import keras
import numpy as np
import tensorflow as tf

embeddings = np.load("embeddings.npy", mmap_mode="r")
(x_train, y_train), _ = keras.datasets.cifar10.load_data()
table = tf.Variable(tf.zeros((10_000, 64)))
palette = np.zeros((256, 3), dtype=np.uint8)


@tf.function
def lookup(index):
    return tf.gather(table, index)


@tf.function
def paint(index):
    return tf.gather(palette, index)


@tf.function
def mean(batch):
    # Python computes the shape and the length while the function is traced.
    return tf.reduce_sum(batch) / x_train.shape[0] + len(x_train)


def read(index):
    return x_train[index]


def pick(index):
    return tf.numpy_function(read, [index], tf.uint8)


rows = tf.data.Dataset.range(50_000).map(pick)
print(tf.reduce_mean(y_train))


@tf.function
def local():
    x_train = tf.ones((3, 3))
    return tf.reduce_sum(x_train)
