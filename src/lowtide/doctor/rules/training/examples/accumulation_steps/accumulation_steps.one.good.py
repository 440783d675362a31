import keras
import numpy as np

# One batch for each update.
model = keras.Sequential([keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(gradient_accumulation_steps=1), "mse")
model.fit(np.zeros((1000, 4)), np.zeros((1000, 1)), batch_size=64)
other = keras.optimizers.Adam(gradient_accumulation_steps=None)
