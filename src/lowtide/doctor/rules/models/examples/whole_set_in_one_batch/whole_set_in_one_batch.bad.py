import keras
import numpy as np
import tensorflow as tf
from tensorflow.keras.datasets import mnist

(x_train, y_train), (x_test, y_test) = mnist.load_data()
x_test = x_test.astype("float32") / 255
model = keras.Sequential([keras.layers.Conv2D(32, 3), keras.layers.Flatten(), keras.layers.Dense(10)])
scores = model(x_test)  # bad
size = 20000
many = tf.random.normal(shape=(size, 100))
print(model(many, training=False))  # bad


def evaluate(net: keras.Model):
    images = np.zeros((50_000, 32, 32, 3), "float32")
    small = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])
    return small.predict_on_batch(images)  # bad
