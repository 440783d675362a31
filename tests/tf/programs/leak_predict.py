"""A game that asks `predict` for each move."""

import json

import keras
import numpy as np

import lowtide as lt

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
model.compile()
with lt.Watch() as watch:
    for _ in range(24):
        model.predict(np.ones((1, 8), "float32"), verbose=0)

print(json.dumps([finding.as_json() for finding in watch.findings]))
