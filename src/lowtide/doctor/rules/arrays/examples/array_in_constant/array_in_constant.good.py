import numpy as np
import tensorflow as tf
from tensorflow import keras

(x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
labels = tf.constant(y_train)
first = tf.constant(x_train[:32])
one = tf.convert_to_tensor(x_train[0])
identity = tf.constant(np.eye(3))
weights = tf.constant(np.zeros((64, 64)))
mean = tf.constant(np.mean(x_train, axis=(0, 1, 2)))
shape = tf.constant(x_train.shape)
file = np.load("images.npy", mmap_mode="r")
batch = tf.constant(file[:32])


def given(x):
    return tf.constant(x)


for begin in range(0, 50_000, 100):
    print(tf.reduce_sum(tf.constant(x_train[begin : begin + 100])))


matrix = np.random.rand(10_000, 10_000)
left = tf.constant(matrix)
print(tf.matmul(left, left), tf.linalg.svd(tf.convert_to_tensor(matrix)))


def read_list(file):
    return np.genfromtxt(file, dtype=str, encoding="utf-8")


paths = tf.constant(read_list("files.txt"))
