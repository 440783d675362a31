import tensorflow as tf
import tensorflow.compat.v1 as tf1

tf1.disable_eager_execution()
a = tf1.placeholder(tf.float32)
total = tf1.get_variable("total", shape=())
more = tf1.add(a, 1.0)
assign = tf1.assign(total, a)

with tf1.Session() as sess:
    sess.run(tf1.global_variables_initializer())
    for i in range(1_000):
        sess.run([more, assign], {a: i})
    for i in range(3):
        sess.run(tf.multiply(a, 2.0), {a: i})
for i in range(100):
    with tf.Graph().as_default(), tf1.Session() as fresh:
        fresh.run(tf1.add(tf.constant(1.0), 2.0))
