"""A search over learning rates that builds a model for each."""

import json

import keras
import numpy as np

import lowtide as lt

x, y = np.ones((32, 16), "float32"), np.ones((32, 1), "float32")
watch = lt.Watch()
for rate in (0.1, 0.01, 0.001, 0.0001):
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(256), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(rate), "mse")
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[watch])
    keras.backend.clear_session()

print(json.dumps([finding.as_json() for finding in watch.findings]))
