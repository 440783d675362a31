import numpy as np
import tensorflow as tf
from tensorflow import function


@tf.function
def total(x):
    return tf.reduce_sum(x)


@function
def mean(x, axis=None):
    return tf.reduce_mean(x, axis)


x = tf.ones((100, 8))
for i in range(1, 100):
    total(x[:i])  # bad
    part = x[:, i:]
    mean(part, axis=0)  # bad

length = 1
while length < 50:
    total(tf.zeros([length, 3]))  # bad
    length += 1


def grow(steps):
    for i in range(steps):
        mean(np.ones((4, i + 1)))  # bad
