import glob

import tensorflow as tf
from tensorflow import data as tf_data, image, io
from tensorflow import keras

files = glob.glob("photos/*.jpg")


def read(path):
    return image.resize(image.decode_jpeg(io.read_file(path), channels=3), (224, 224))


photos = tf_data.Dataset.from_tensor_slices(files).map(read)
everything = photos.shuffle(len(files)).batch(32)  # bad
thousands = photos.shuffle(10_000).batch(32)  # bad

single = keras.utils.image_dataset_from_directory("photos", batch_size=None)
single = single.shuffle(buffer_size=single.cardinality())  # bad

(x_train, y_train), _ = keras.datasets.cifar10.load_data()
x_train = x_train.astype("float32")
pairs = tf.data.Dataset.from_tensor_slices((x_train, y_train))
pairs = pairs.shuffle(50_000)  # bad
