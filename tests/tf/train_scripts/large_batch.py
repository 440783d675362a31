"""Trains with `fit` on batches that are far too large for a small memory limit.

large_batch.py RESULT [--batch N] [--normalization]
"""

import argparse
import json
from pathlib import Path

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("result", type=Path)
parser.add_argument("--batch", type=int, default=512)
parser.add_argument("--normalization", action="store_true")
options = parser.parse_args()
keras.utils.set_random_seed(1)

generator = np.random.default_rng(0)
x = generator.normal(size=(1024, 16, 16, 3)).astype("float32")
y = generator.integers(0, 3, len(x))
inputs = outputs = keras.Input((16, 16, 3))
for _ in range(6):
    outputs = keras.layers.Conv2D(32, 3, padding="same", activation="relu")(outputs)
    if options.normalization:
        outputs = keras.layers.BatchNormalization()(outputs)
outputs = keras.layers.Dense(3)(keras.layers.GlobalAveragePooling2D()(outputs))
model = keras.Model(inputs, outputs)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
history = model.fit(x, y, batch_size=options.batch, epochs=2, verbose=2)
options.result.write_text(json.dumps({"loss": history.history["loss"], "steps": int(model.optimizer.iterations)}))
