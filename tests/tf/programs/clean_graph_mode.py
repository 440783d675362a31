"""Graph mode as it should be: all ops first, then the loop; an evaluation with a session of its own that is closed."""

import json

import numpy as np
import tensorflow as tf

import lowtide as lt

tf1 = tf.compat.v1
tf1.disable_eager_execution()

x = tf1.placeholder(tf.float32, (None, 8))
weights = tf1.get_variable("weights", (8, 1))
loss = tf1.reduce_mean(tf1.matmul(x, weights) ** 2)
train = tf1.train.AdamOptimizer(0.01).minimize(loss)
initialize = tf1.global_variables_initializer()
with tf1.Session() as session, lt.Watch() as watch:
    session.run(initialize)
    for step in range(60):
        session.run(train, {x: np.ones((4, 8), "float32")})
        if step % 10 == 9:
            with tf1.Session() as other:
                other.run(initialize)
                other.run(loss, {x: np.ones((4, 8), "float32")})

print(json.dumps([finding.as_json() for finding in watch.findings]))
