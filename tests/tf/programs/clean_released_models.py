"""A model for each fold, each one released."""

import json

import keras
import numpy as np

import lowtide as lt

x, y = np.ones((32, 16), "float32"), np.ones((32, 1), "float32")
watch = lt.Watch()
for _ in range(4):
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(256), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[watch])
    lt.release(model)

print(json.dumps([finding.as_json() for finding in watch.findings]))
