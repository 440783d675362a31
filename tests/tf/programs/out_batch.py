"""A step that is too large: six convolutions on a batch of 256, or as many as are asked for, in 250 MiB."""

import sys

import keras
import numpy as np

layers = [keras.layers.Conv2D(32, 3, padding="same", activation="relu") for _ in range(6)]
model = keras.Sequential([keras.Input((64, 64, 3)), *layers, keras.layers.Flatten(), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
rows = int(sys.argv[1]) if len(sys.argv) > 1 else 256
images = np.random.rand(rows, 64, 64, 3).astype("float32")
model.fit(images, np.zeros(rows, "int32"), batch_size=rows, verbose=0)
