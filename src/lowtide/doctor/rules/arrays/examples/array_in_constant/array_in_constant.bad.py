import numpy as np
import tensorflow as tf
from keras import ops
from keras.datasets import cifar10
from tensorflow import constant
from tensorflow import keras

x = tf.constant(np.load("images.npy"))  # bad

(x_train, y_train), (x_test, y_test) = cifar10.load_data()
x_train = x_train / 255.0
train = tf.convert_to_tensor(x_train, dtype=tf.float32)  # bad
test = ops.convert_to_tensor(x_test)  # bad


def digits():
    (images, labels), _ = keras.datasets.mnist.load_data()
    images = np.expand_dims(images, -1)
    return constant(images), constant(labels)  # bad


weights = np.zeros(shape=(4096, 4096), dtype="float32")


@tf.function
def product(a):
    return tf.matmul(a, tf.constant(weights))  # bad


archive = np.load("volumes.npz")
volumes = tf.constant(value=archive["volumes"])  # bad

samples = np.random.rand(100_000, 100).astype(np.float32)
everything = tf.constant(samples)  # bad
