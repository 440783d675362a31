"""Two LSTM layers over sequences, with `fit`."""

import keras
import numpy as np
from keras import layers
from steps import StepLog, read_options

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

rows = BATCH * options.steps
sequences = np.random.rand(rows, LENGTH, 32).astype("float32")
labels = np.random.randint(0, 10, rows).astype("int32")
model.fit(sequences, labels, batch_size=BATCH, callbacks=[StepLog(options)], verbose=0)
