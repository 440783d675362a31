import numpy as np
import tensorflow as tf


@tf.function
def step(x, i):
    return x * tf.cast(i, tf.float32)


@tf.function(input_signature=[tf.TensorSpec((8, 8)), tf.TensorSpec((), tf.int32)])
def signed(x, i):
    return x * tf.cast(i, tf.float32)


@tf.function
def unrolled(x):
    for i in range(10):
        x = step(x, i)
    return x


def plain(x, i):
    return x * i


x = tf.ones((8, 8))
for i in range(1_000):
    step(x, tf.constant(i))
    step(x, 3)
    step(x[i % 8], np.int64(i))
    signed(x, i)
    plain(x, i)
for i in tf.range(1_000):
    step(x, i)
for i in range(3):
    step(x, i)
for i, batch in tf.data.Dataset.range(100).enumerate():
    step(x, i)
