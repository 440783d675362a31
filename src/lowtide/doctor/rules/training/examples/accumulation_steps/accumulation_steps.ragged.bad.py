import keras
import numpy as np

x = np.random.rand(1000, 16)
y = np.zeros((1000, 1))
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(gradient_accumulation_steps=4), "mse")  # bad
model.fit(x, y, batch_size=64)
