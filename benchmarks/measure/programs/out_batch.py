"""Runs out of memory on purpose: a batch that is too large."""

import sys

import keras
import numpy as np
from keras import layers

batch = int(sys.argv[1]) if len(sys.argv) > 1 else 256

model = keras.Sequential(
    [
        keras.Input((64, 64, 3)),
        *[layers.Conv2D(32, 3, padding="same", activation="relu") for _ in range(6)],
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

images = np.random.rand(batch, 64, 64, 3).astype("float32")
labels = np.random.randint(0, 10, batch).astype("int32")
model.fit(images, labels, batch_size=batch, epochs=6, verbose=0)
