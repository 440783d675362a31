"""Runs out of memory on purpose: enough is free, but in pieces."""

import tensorflow as tf

MEBIFLOATS = 2**18


@tf.function
def step(x):
    return tf.reduce_sum(x * 2.0 + 1.0)


# 224 of 300 MiB in blocks of 8 MiB; every second one is given back.
blocks = [tf.random.normal([8 * MEBIFLOATS]) for _ in range(28)]
kept = blocks[::2]
del blocks

for _ in range(3):
    step(tf.ones([1024]))
step(tf.ones([72 * MEBIFLOATS]))
