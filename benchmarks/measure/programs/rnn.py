"""Two LSTM layers over sequences, with `fit`."""

import keras
import numpy as np
from keras import layers
from steps import Batches, StepLog, read_options

BATCH, LENGTH = 64, 50

options = read_options()
model = keras.Sequential(
    [
        keras.Input((LENGTH, 32)),
        layers.LSTM(256, return_sequences=True),
        layers.LSTM(256),
        layers.Dense(10),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile=options.xla)


def make_batch():
    return np.random.rand(BATCH, LENGTH, 32).astype("float32"), np.random.randint(0, 10, BATCH).astype("int32")


model.fit(Batches(make_batch, options.steps), callbacks=[StepLog(options)], verbose=0)
