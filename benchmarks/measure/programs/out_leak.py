"""Runs out of memory on purpose: a list keeps what every step returns."""

import tensorflow as tf

weights = tf.Variable(tf.random.normal([64, 64]))
history = []


@tf.function
def step(x):
    hidden = tf.matmul(x, weights)
    weights.assign_add(1e-3 * tf.ones_like(weights))
    return hidden


for _ in range(1000):
    history.append(step(tf.random.normal([4096, 64])))
