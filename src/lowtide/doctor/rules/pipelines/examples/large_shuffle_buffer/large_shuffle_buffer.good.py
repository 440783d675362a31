import glob

import tensorflow as tf
from tensorflow import keras

files = glob.glob("photos/*.jpg")


def read(path):
    return tf.image.resize(tf.image.decode_jpeg(tf.io.read_file(path), channels=3), (224, 224))


def small(path):
    return tf.image.resize(tf.image.decode_png(tf.io.read_file(path)), (28, 28))


paths = tf.data.Dataset.from_tensor_slices(files)
photos = paths.shuffle(len(files)).map(read).batch(32).prefetch(2)
some = paths.map(read).shuffle(200).batch(32)
digits = paths.map(small).shuffle(10_000).batch(32)
numbers = tf.data.Dataset.range(1_000_000).shuffle(1_000_000)
(x_train, y_train), _ = keras.datasets.mnist.load_data()
pairs = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(60_000).batch(32)


def given(dataset):
    return dataset.shuffle(100_000)


def letters(line):
    return tf.one_hot(tf.io.decode_raw(line, tf.uint8), 256)


names = tf.data.TextLineDataset("names.csv").map(letters).shuffle(10_000).padded_batch(32)


def photo(path):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path)), (512, 512))


# The buffer refers to the images of the cache, which a file could hold.
cached = tf.data.Dataset.list_files("*.jpg").take(500).map(photo).cache().shuffle(2_000)
