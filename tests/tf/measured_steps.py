"""A module that a child process can import: steps to be measured there."""

import keras
import tensorflow as tf

net = keras.Sequential([keras.Input((32,)), keras.layers.Dense(300, activation="relu", name="wide")])
optimizer = keras.optimizers.SGD(momentum=0.9)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x, training=True) - y))
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
    return loss


def greedy(x):
    return tf.fill((1 << 20, 1 << 12), x)


def broken(x):
    raise ValueError("this step\nis broken")


class Doubled(keras.layers.Dense):
    """A layer that Keras does not know of."""

    def call(self, inputs):
        return 2.0 * super().call(inputs)


def square(y, prediction):
    return tf.reduce_mean(tf.square(y - prediction), axis=-1)
