import tensorflow as tf
from tensorflow.compat import v1

graph = tf.Graph()


def infer(image):
    with tf.compat.v1.Session(graph=graph) as session:
        return session.run("output:0", {"input:0": image})


def closed(image):
    session = v1.Session()
    try:
        return session.run("output:0", {"input:0": image})
    finally:
        session.close()


def entered(image):
    session = v1.Session()
    with session:
        return session.run("output:0", {"input:0": image})


def made():
    session = v1.Session(graph=graph)
    return session


class Predictor:
    def __init__(self):
        session = v1.Session(graph=graph)
        self.session = session

    def __call__(self, image):
        return self.session.run("output:0", {"input:0": image})


for fold in range(10):
    session = v1.InteractiveSession()
    session.run("output:0")
    session.close()


def train():
    session = v1.InteractiveSession()
    session.run("train")


# The process ends with them.
train()
sess = tf.compat.v1.Session()
print(sess.run("output:0"))
