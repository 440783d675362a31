import glob

import h5py
import keras
import numpy as np
import tensorflow as tf
from tensorflow.data import Dataset

files = tf.data.Dataset.from_tensor_slices(glob.glob("images/*.jpg"))

# 45 MiB.
(x_train, y_train), _ = keras.datasets.mnist.load_data()
digits = Dataset.from_tensor_slices((x_train, y_train)).shuffle(1024).batch(32)

images = np.load("images.npy", mmap_mode="r")


def rows():
    yield from images


mapped = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec(images.shape[1:]))
first = tf.data.Dataset.from_tensor_slices(np.load("images.npy")[:100])
noise = tf.data.Dataset.from_tensor_slices(np.random.rand(1_000, 32))


def given(x, y):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(32)


with h5py.File("volumes.h5") as file:
    names = tf.data.Dataset.from_tensor_slices(list(file))
    few = tf.data.Dataset.from_tensor_slices(file["volumes"][:10])


# Texts.
image_names = np.load("images.npy")
pairs = tf.data.Dataset.from_tensor_slices(image_names)
