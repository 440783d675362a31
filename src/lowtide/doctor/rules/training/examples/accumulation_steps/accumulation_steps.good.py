import keras
import numpy as np
import tensorflow as tf

x = np.zeros((1024, 16), "float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(64)
model = keras.Sequential([keras.layers.LayerNormalization(), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(gradient_accumulation_steps=4), "mse")
model.fit(data)
model.fit(x, x[:, :1], batch_size=64)
