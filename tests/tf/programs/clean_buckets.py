"""Sequences in a few lengths, sorted: one trace and one compiled program for each, and no more."""

import json

import tensorflow as tf

import lowtide as lt

weights = tf.Variable(tf.ones((8, 8)))


@tf.function
def encode(tokens):
    return tf.reduce_sum(tf.nn.relu(tokens @ weights))


@tf.function(jit_compile=True, reduce_retracing=True)
def score(tokens):
    return tf.reduce_sum(tokens * tokens)


with lt.Watch() as watch:
    for _ in range(6):
        for length in (8, 16, 24, 32, 48, 64):
            for _ in range(3):
                encode(tf.ones((length, 8)))
                score(tf.ones((length, 8)))

print(json.dumps([finding.as_json() for finding in watch.findings]))
