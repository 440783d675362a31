"""Writes what tf.summary.trace_export says of a step into a folder."""

import sys

import tensorflow as tf


@tf.function
def step(x):
    for _ in tf.range(3):
        x = tf.nn.relu(x @ tf.ones((4, 4)))
    return tf.reduce_sum(x)


writer = tf.summary.create_file_writer(sys.argv[1])
tf.summary.trace_on(graph=True, profiler=False)
step(tf.ones((2, 4)))
with writer.as_default():
    tf.summary.trace_export("train_step", step=0)
writer.close()
