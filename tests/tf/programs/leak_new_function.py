"""A tf.function made inside of the loop."""

import json

import tensorflow as tf

import lowtide as lt


def run(x):
    step = tf.function(lambda value: tf.reduce_mean(value * value))
    return step(x)


with lt.Watch() as watch:
    for _ in range(30):
        run(tf.ones((16, 16)))
        watch.step()

print(json.dumps([finding.as_json() for finding in watch.findings]))
