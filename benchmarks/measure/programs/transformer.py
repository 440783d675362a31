"""A small language model of three transformer blocks, with `fit`."""

import keras
import numpy as np
from keras import layers
from steps import Batches, StepLog, read_options

BATCH, LENGTH, WORDS, WIDTH = 32, 64, 4000, 192

options = read_options()
tokens = keras.Input((LENGTH,), dtype="int32")
hidden = layers.Embedding(WORDS, WIDTH)(tokens)
for _ in range(3):
    attended = layers.MultiHeadAttention(4, WIDTH // 4)(hidden, hidden, use_causal_mask=True)
    hidden = layers.LayerNormalization()(hidden + layers.Dropout(0.1)(attended))
    widened = layers.Dense(4 * WIDTH, activation="gelu")(hidden)
    hidden = layers.LayerNormalization()(hidden + layers.Dense(WIDTH)(widened))
model = keras.Model(tokens, layers.Dense(WORDS)(hidden))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile=options.xla)


def make_batch():
    text = np.random.randint(0, WORDS, (BATCH, LENGTH + 1)).astype("int32")
    return text[:, :-1], text[:, 1:]


model.fit(Batches(make_batch, options.steps), callbacks=[StepLog(options)], verbose=0)
