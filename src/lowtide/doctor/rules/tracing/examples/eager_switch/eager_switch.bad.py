import tensorflow as tf
from tensorflow import data, keras

tf.config.run_functions_eagerly(True)  # bad
data.experimental.enable_debug_mode()  # bad

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse", run_eagerly=True)  # bad
model.fit(tf.zeros((8, 4)), tf.zeros((8, 1)))
