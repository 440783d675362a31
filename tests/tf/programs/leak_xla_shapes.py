"""Ever new lengths for a function that is compiled: traced once, compiled each time."""

import json

import tensorflow as tf

import lowtide as lt


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
def score(x):
    return tf.reduce_sum(x * x)


with lt.Watch() as watch:
    for length in range(30):
        score(tf.ones((length + 1,)))

print(json.dumps([finding.as_json() for finding in watch.findings]))
