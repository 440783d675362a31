import keras
import numpy as np
import tensorflow as tf
from tensorflow import data, function

embeddings = np.load("embeddings.npy")
(x_train, y_train), _ = keras.datasets.cifar10.load_data()


@tf.function
def lookup(index):
    return tf.gather(embeddings, index)  # bad


@function(jit_compile=True)
def mean():
    return tf.reduce_mean(tf.cast(x_train, tf.float32))  # bad


indices = data.Dataset.range(50_000)
rows = indices.map(lambda i: tf.gather(params=x_train, indices=i))  # bad


def pick(index):
    return tf.gather(x_train, index), tf.gather(y_train, index)  # bad


pairs = indices.map(pick, num_parallel_calls=data.AUTOTUNE)


class Retriever(keras.Model):
    def call(self, queries):
        return tf.matmul(queries, embeddings, transpose_b=True)  # bad


def main():
    volumes = np.zeros((1000, 64, 64, 64, 4), dtype=np.float32)

    @tf.function
    def volume(index):
        return tf.gather(volumes, index)  # bad

    return volume
