import h5py
import keras
import numpy as np
import tensorflow as tf
from tensorflow import data as tf_data
from tensorflow.data import Dataset

x = np.load("images.npy")
y = np.load("labels.npy")
pairs = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)  # bad
whole = tf_data.Dataset.from_tensors(x)  # bad

(x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
x_train = x_train.astype("float32") / 255.0
train = Dataset.from_tensor_slices({"image": x_train, "label": y_train})  # bad


def noise():
    samples = np.random.rand(2_000, 224, 224, 3).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(samples)  # bad


class Pipeline:
    def __init__(self, path):
        self.images = np.load(path)["images"]

    def dataset(self):
        return tf.data.Dataset.from_tensor_slices(self.images).batch(8)  # bad


with h5py.File("volumes.h5") as file:
    volumes = tf.data.Dataset.from_tensor_slices(file["volumes"][:])  # bad

image_shape = (64, 64, 3)
images = np.random.rand(10_000, *image_shape).astype(np.float32)
pairs = tf.data.Dataset.from_tensor_slices((images, np.zeros(10_000)))  # bad
