"""Runs out of memory on purpose: an array in the program becomes a constant of the graph."""

import sys

import numpy as np
import tensorflow as tf

mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
table = np.full((mebibytes, 2**18), 0.5, "float32")


@tf.function
def step(x):
    return tf.reduce_sum(x * tf.constant(table))


for _ in range(3):
    step(tf.constant(1.0))
