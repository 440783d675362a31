"""A step that is too large: six convolutions on a batch of 256 in 250 MiB."""

import keras
import numpy as np

layers = [keras.layers.Conv2D(32, 3, padding="same", activation="relu") for _ in range(6)]
model = keras.Sequential([keras.Input((64, 64, 3)), *layers, keras.layers.Flatten(), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
images = np.random.rand(256, 64, 64, 3).astype("float32")
model.fit(images, np.zeros(256, "int32"), batch_size=256, verbose=0)
