"""A leak: every step's output is kept."""

import tensorflow as tf

weight = tf.Variable(tf.zeros([64, 64]))
history = []


@tf.function
def step(x):
    weight.assign_add(tf.ones_like(weight) * 1e-3)
    return tf.matmul(x, weight)


while True:
    history.append(step(tf.random.normal([4096, 64])))
