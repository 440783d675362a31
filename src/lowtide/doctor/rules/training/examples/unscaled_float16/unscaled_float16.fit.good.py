import keras
import numpy as np

# compile wraps the optimizer, and fit scales the loss.
policy = keras.mixed_precision.Policy("mixed_float16")
keras.mixed_precision.set_global_policy(policy)
model = keras.Sequential([keras.layers.Dense(64), keras.layers.Dense(1, dtype="float32")])
model.compile("adam", "mse")
model.fit(np.ones((8, 4)), np.ones((8, 1)))
