import keras
import tensorflow as tf
from tensorflow.keras import layers

dropout = layers.Dropout(0.5)
dense = layers.Dense(64)
norm = layers.LayerNormalization()
frozen = keras.layers.BatchNormalization()


def block(x):
    return norm(dense(x))


light = tf.recompute_grad(block)
inference = keras.remat(lambda x: frozen(dense(x), training=False))


def outer(x):
    # Dropout is outside of what is recomputed.
    return dropout(light(x), training=True)


class Block(layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(64)
        self.drop = layers.Dropout(0.1)
        self.light = keras.remat(self.body)

    def body(self, x):
        return self.dense(x)

    def call(self, x):
        return self.drop(self.light(x))


stack = keras.remat(keras.Sequential([layers.Dense(8), layers.Dropout(0)]))


@tf.recompute_grad
def seeded(x, seed):
    return tf.nn.experimental.stateless_dropout(dense(x), 0.1, seed)
