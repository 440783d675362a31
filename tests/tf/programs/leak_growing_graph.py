"""Graph mode: an assignment is built in each step."""

import json

import tensorflow as tf

import lowtide as lt

tf1 = tf.compat.v1
tf1.disable_eager_execution()

counter = tf1.get_variable("counter", shape=(), initializer=tf1.zeros_initializer())
with tf1.Session() as session, lt.Watch() as watch:
    session.run(tf1.global_variables_initializer())
    for step in range(40):
        session.run(tf1.assign(counter, step))

print(json.dumps([finding.as_json() for finding in watch.findings]))
