import sys

import tensorflow as tf
from tensorflow import keras

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse", run_eagerly="--debug" in sys.argv)
model.fit(tf.zeros((8, 4)), tf.zeros((8, 1)))
plain = keras.Sequential([keras.layers.Dense(1)])
plain.compile("adam", "mse", run_eagerly=False)
plain.fit(tf.zeros((8, 4)), tf.zeros((8, 1)))
shown = keras.Sequential([keras.layers.Dense(1)])
shown.compile(run_eagerly=True)
print(shown.predict(tf.zeros((8, 4))))
if "--debug" in sys.argv:
    tf.config.run_functions_eagerly(True)
    tf.data.experimental.enable_debug_mode()
