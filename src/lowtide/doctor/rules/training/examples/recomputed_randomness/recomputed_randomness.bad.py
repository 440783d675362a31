import keras
import tensorflow as tf
from tensorflow.keras import layers

dropout = layers.Dropout(0.5)
dense = layers.Dense(64)
norm = keras.layers.BatchNormalization()


def block(x):
    return dropout(dense(x), training=True)


light = tf.recompute_grad(block)  # bad
normed = keras.remat(lambda x: norm(dense(x), training=True))  # bad


@tf.recompute_grad  # bad
def noisy(x):
    return tf.nn.dropout(dense(x), rate=0.1)


class Block(layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(64)
        self.drop = layers.SpatialDropout1D(0.1)
        self.light = keras.remat(self.body)  # bad

    def body(self, x):
        return self.drop(self.dense(x))

    def call(self, x):
        return self.light(x)


class Dropped(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.drop = layers.Dropout(0.1)

    def call(self, x):
        return self.drop(x)


wrapped = keras.remat(Dropped())  # bad
stack = keras.Sequential([layers.Dense(8), layers.BatchNormalization()])
lighter = keras.remat(stack)  # bad
