"""Trains with `fit` while the script keeps a tensor of every step.

leak.py RESULT
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(3000, 64)).astype("float32")
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")


kept = []


class Keeping(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        kept.append(tf.ones([16, 1024]) * 2.0)


model.fit(x, x[:, 0], batch_size=4, epochs=1, verbose=0, callbacks=[Keeping()])
Path(sys.argv[1]).write_text(json.dumps({"steps": int(model.optimizer.iterations)}))
