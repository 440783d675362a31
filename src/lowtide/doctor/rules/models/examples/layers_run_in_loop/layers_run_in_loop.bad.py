import keras
import tensorflow as tf
from tensorflow.keras.layers import Conv2D

x = tf.random.normal((32, 100))
for _ in range(500):
    x = keras.layers.Dense(100)(x)  # bad


def deep(image, depth):
    pixels = tf.convert_to_tensor(image)
    for _ in range(depth):
        pixels = Conv2D(8, 3, padding="same")(pixels)  # bad
    return pixels
