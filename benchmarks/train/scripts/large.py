"""Trains a model on batches of a given size, as a script of a user.

large.py FOLDER PROGRAM --batch N --samples N [--predict]

FOLDER/steps.jsonl gets a line for each step, with the process and the updates after it. FOLDER/result.json gets the
number of updates and the losses of the epochs, with --predict only what a step and the data take.
"""

import argparse
import json
import os
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("program")
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--samples", type=int, required=True)
parser.add_argument("--predict", action="store_true", help="only say what a step takes")
options = parser.parse_args()
keras.utils.set_random_seed(1)
layers = keras.layers
EPOCHS, CLASSES, VOCABULARY = 2, 3, 500


def cnn(normalized=False):
    inputs = outputs = keras.Input((16, 16, 3))
    for _ in range(6):
        outputs = layers.Conv2D(32, 3, padding="same")(outputs)
        if normalized:
            outputs = layers.BatchNormalization()(outputs)
        outputs = layers.ReLU()(outputs)
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(outputs)))


def cnn_with_normalization():
    return cnn(normalized=True)


def mlp():
    inputs = outputs = keras.Input((128,))
    for _ in range(6):
        outputs = layers.Dense(256, activation="gelu")(outputs)
    return keras.Model(inputs, layers.Dense(CLASSES)(outputs))


def transformer():
    inputs = keras.Input((32,), dtype="int32")
    outputs = layers.Embedding(VOCABULARY, 64)(inputs)
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, 16, dropout=0.1)(outputs, outputs)
        outputs = layers.LayerNormalization()(outputs + attended)
        hidden = layers.Dense(64)(layers.Dense(256, activation="gelu")(outputs))
        outputs = layers.LayerNormalization()(outputs + layers.Dropout(0.1)(hidden))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(outputs)))


def lstm():
    inputs = keras.Input((32, 16))
    outputs = layers.LSTM(64)(layers.LSTM(64, return_sequences=True)(inputs))
    return keras.Model(inputs, layers.Dense(CLASSES)(outputs))


class Autoencoder(keras.Model):
    """A model as a class of its own, with layers in lists."""

    def __init__(self):
        super().__init__()
        self.down = [layers.Conv1D(32, 5, padding="same", activation="relu") for _ in range(4)]
        self.dropout = layers.Dropout(0.2)
        self.up = [layers.Conv1D(32, 5, padding="same", activation="relu") for _ in range(4)]
        self.out = layers.Dense(CLASSES)

    def call(self, inputs, training=None):
        kept = []
        for layer in self.down:
            inputs = layer(inputs)
            kept.append(inputs)
        inputs = self.dropout(inputs, training=training)
        for layer, skipped in zip(self.up, reversed(kept), strict=True):
            inputs = layer(inputs) + skipped
        return self.out(keras.ops.mean(inputs, axis=1))


SHAPES = {
    "cnn": (16, 16, 3),
    "cnn_with_normalization": (16, 16, 3),
    "mlp": (128,),
    "lstm": (32, 16),
    "Autoencoder": (64, 8),
}


class Steps(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        with open(options.folder / "steps.jsonl", "a") as file:
            file.write(json.dumps([os.getpid(), int(self.model.optimizer.iterations)]) + "\n")


generator = np.random.default_rng(0)
if options.program == "transformer":
    x = generator.integers(0, VOCABULARY, (options.samples, 32))
else:
    x = generator.normal(size=(options.samples, *SHAPES[options.program])).astype("float32")
y = generator.integers(0, CLASSES, options.samples)

model = globals()[options.program]()
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
if options.predict:
    import lowtide as lt

    # A model of a class of its own does not know its shapes.
    specs = [tf.TensorSpec((None, *each.shape[1:]), each.dtype) for each in (x, y)]
    safe_bytes = lt.predict(model, *specs, batch_size=options.batch).safe_bytes
    result = {"safe_bytes": safe_bytes, "data_bytes": x.nbytes + y.nbytes}
else:
    history = model.fit(x, y, batch_size=options.batch, epochs=EPOCHS, verbose=0, callbacks=[Steps()])
    result = {"updates": int(model.optimizer.iterations), "losses": history.history["loss"]}
(options.folder / "result.json").write_text(json.dumps(result))
