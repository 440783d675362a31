import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow import data, keras

train = keras.utils.image_dataset_from_directory("flowers", batch_size=32)
everything = list(train)  # bad
images = [x for x, y in train]  # bad
arrays = [image.numpy() for image, label in train.map(lambda x, y: (x / 255, y))]  # bad
stacked = np.array(list(train.unbatch().as_numpy_iterator()))  # bad


def parse(record):
    return tf.io.parse_tensor(record, tf.float32)


records = data.TFRecordDataset(["a.tfrecord", "b.tfrecord"]).map(parse)
array = np.stack([each for each in records])  # bad

cats, info = tfds.load("cats_vs_dogs", split="train", with_info=True)
rows = tuple(cats.as_numpy_iterator())  # bad


def read(path):
    return tf.io.decode_jpeg(tf.io.read_file(path))


photos = tf.data.Dataset.list_files("photos/*.jpg").map(read, num_parallel_calls=tf.data.AUTOTUNE)
print(len(list(photos)))  # bad
