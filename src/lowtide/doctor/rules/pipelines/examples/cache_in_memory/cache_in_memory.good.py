import numpy as np
import tensorflow as tf
from tensorflow import data, keras

once = data.TFRecordDataset(["a.tfrecord"]).cache().repeat().batch(32)
limited = tf.data.Dataset.range(1_000).repeat().take(10_000).cache()


def noise():
    for _ in range(1_000):
        yield np.random.rand(32, 32)


def search():
    step = 0
    while True:
        if step > 100:
            return
        step += 1
        yield step


samples = tf.data.Dataset.from_generator(noise, output_signature=tf.TensorSpec((32, 32))).batch(8).cache()
steps = tf.data.Dataset.from_generator(search, output_signature=tf.TensorSpec(())).cache()
flowers = keras.utils.image_dataset_from_directory("flowers", image_size=(224, 224)).cache("/tmp/flowers.cache")
icons = keras.utils.image_dataset_from_directory("icons", image_size=(32, 32)).cache()


def decode(content):
    return tf.image.resize(tf.image.decode_jpeg(content, channels=3), (512, 512))


contents = tf.data.Dataset.list_files("photos/*.jpg").map(tf.io.read_file).cache()
photos = contents.map(decode).batch(8)
