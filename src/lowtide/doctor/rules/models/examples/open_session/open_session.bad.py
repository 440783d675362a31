import tensorflow as tf
from tensorflow.compat import v1

graph = tf.Graph()


def infer(image):
    session = tf.compat.v1.Session(graph=graph)  # bad
    return session.run("output:0", {"input:0": image})


def describe(name):
    sess = v1.InteractiveSession()  # bad
    value = sess.run(name)
    print(value)


for each in ("a", "b", "c"):
    describe(each)


for fold in range(10):
    sess = tf.compat.v1.Session()  # bad
    sess.run(tf.compat.v1.global_variables_initializer())
