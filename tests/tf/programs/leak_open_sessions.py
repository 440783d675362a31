"""Graph mode: a session for each evaluation, none of them closed."""

import json

import tensorflow as tf

import lowtide as lt

tf1 = tf.compat.v1
tf1.disable_eager_execution()

total = tf1.reduce_sum(tf1.ones((16, 16)))
sessions = {}


def evaluate(step):
    sessions[step] = tf1.Session()
    return sessions[step].run(total)


with lt.Watch() as watch:
    for step in range(12):
        evaluate(step)

print(json.dumps([finding.as_json() for finding in watch.findings]))
