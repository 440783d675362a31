"""A Python number as an argument of a tf.function: each value is a new trace."""

import json

import tensorflow as tf

import lowtide as lt

weights = tf.Variable(tf.ones((64, 64)))


@tf.function
def train_step(x, step):
    return tf.reduce_sum(tf.matmul(x, weights)) / (step + 1)


with lt.Watch() as watch:
    for step in range(30):
        train_step(tf.ones((8, 64)), step)
        watch.step()

print(json.dumps([finding.as_json() for finding in watch.findings]))
