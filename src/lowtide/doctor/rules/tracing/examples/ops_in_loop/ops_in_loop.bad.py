import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.compat import v1

tf1.disable_eager_execution()
a = tf1.placeholder(tf.float32)
total = tf1.get_variable("total", shape=())

with tf1.Session() as sess:
    for i in range(1_000):
        sess.run(tf1.add(a, 1.0), {a: i})  # bad
        doubled = tf.multiply(a, 2.0)  # bad
        sess.run([doubled, a], {a: i})
    while sess.run(a, {a: 1.0}) < 1:
        sess.run(tf1.assign(total, 1.0))  # bad


def restart(session_steps):
    session = v1.Session()
    for _ in range(session_steps):
        session.run(v1.global_variables_initializer())  # bad
    session.close()
