import numpy as np
import tensorflow as tf
from tensorflow import data, keras
from tensorflow.keras.utils import image_dataset_from_directory

endless = data.TFRecordDataset(["a.tfrecord"]).repeat().cache().batch(32)  # bad
tenfold = tf.data.Dataset.range(1_000).repeat(10).cache()  # bad


def noise():
    while True:
        yield np.random.rand(32, 32)


samples = tf.data.Dataset.from_generator(noise, output_signature=tf.TensorSpec((32, 32)))
samples = samples.batch(8).cache()  # bad

flowers = image_dataset_from_directory("flowers", image_size=(384, 384))
flowers = flowers.cache().prefetch(2)  # bad


def read(path):
    image = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, [512, 512])


class Pipeline:
    def dataset(self, pattern):
        photos = tf.data.Dataset.list_files(pattern).map(read)
        return photos.cache().batch(8)  # bad
