"""The same model fitted again and again, with a prediction after each round."""

import json

import keras
import numpy as np

import lowtide as lt

x, y = np.ones((64, 16), "float32"), np.ones((64, 1), "float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = []
with lt.Watch() as watch:
    for _ in range(14):
        model.fit(x, y, batch_size=8, verbose=0, validation_data=(x[:8], y[:8]))
        history.append(float(model.predict(x[:8], verbose=0).mean()))

print(json.dumps([finding.as_json() for finding in watch.findings]))
