"""A new variable in each step, kept in a list."""

import json

import tensorflow as tf

import lowtide as lt

snapshots = []
weights = tf.Variable(tf.ones((64, 64)))


@tf.function
def step():
    weights.assign_add(tf.ones((64, 64)))


with lt.Watch() as watch:
    for _ in range(40):
        step()
        snapshots.append(tf.Variable(weights))
        watch.step()

print(json.dumps([finding.as_json() for finding in watch.findings]))
