"""Trains a small model with `fit`, as a script that knows nothing of lowtide; a fault can be ordered.

fit_program.py RESULT DATA [--fault NAME@PLACE] [--epochs N]

RESULT gets the weights' digest, the history and, for each epoch, the samples in the order in which they were trained.
"""

import argparse
import errno
import hashlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("result", type=Path)
parser.add_argument("data", choices=["arrays", "dataset", "feed", "sequence"])
parser.add_argument(
    "--fault",
    default="",
    help="SIGKILL@7 sends a signal after step 7, once; SIGKILL@open during a checkpoint in the background after that of"
    " step 4, at such a call for one of its files; ENOSPC@4 fills the disk for those from step 4 on",
)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--model", default="mlp", choices=["mlp", "cnn", "lstm", "wide"])
options = parser.parse_args()
keras.utils.set_random_seed(5)

SAMPLES, BATCH = 40, 6
generator = np.random.default_rng(0)
x = generator.normal(size=(SAMPLES, 8, 8, 1)).astype("float32")
y = generator.integers(0, 3, SAMPLES)


class Recording(keras.Model):
    """Records the samples of each step in a file: the first number of a sample tells which one it is."""

    def train_step(self, data):
        result = super().train_step(data)
        tf.py_function(record, [data[0][:, 0, 0, 0]], [])
        return result


known = {np.float32(value).tobytes(): index for index, value in enumerate(x[:, 0, 0, 0])}


def record(values):
    with open(f"{options.result}.samples", "a") as file:
        file.write(json.dumps([known[value.tobytes()] for value in values.numpy()]) + "\n")


def layers():
    if options.model == "cnn":
        yield keras.layers.Conv2D(4, 3)
        yield keras.layers.BatchNormalization()
        yield keras.layers.Flatten()
    elif options.model == "lstm":
        yield keras.layers.Reshape((8, 8))
        yield keras.layers.LSTM(8)
    elif options.model == "wide":
        # 25 MiB with the slots of Adam.
        yield keras.layers.Flatten()
        yield keras.layers.Dense(32768, activation="relu")
    else:
        yield keras.layers.Flatten()
        yield keras.layers.Dense(16, activation="relu")
    yield keras.layers.Dropout(0.3)
    yield keras.layers.Dense(3)


inputs = outputs = keras.Input((8, 8, 1))
for layer in layers():
    outputs = layer(outputs)
model = Recording(inputs, outputs)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])


class Fault(keras.callbacks.Callback):
    """Sends a signal to this process after a step, in the first process only."""

    def on_train_batch_end(self, batch, logs=None):
        if place.isdigit() and int(self.model.optimizer.iterations) == int(place):
            send_signal()


name, _, place = options.fault.partition("@")
marker = Path(f"{options.result}.fault")


def send_signal():
    if name.startswith("SIG") and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), getattr(signal, name))


def watch(event, arguments):
    """Send the signal within a checkpoint in the background."""
    if event == place and threading.current_thread().name == "lowtide checkpoint":
        path = Path(str(arguments[0]))
        number = next((part.removesuffix(".part") for part in path.parts if part.endswith(".part")), "")
        if number.isdigit() and int(number) > 4:
            send_signal()


def save_or_fail(pieces, folder):
    if threading.current_thread().name == "lowtide checkpoint" and int(folder.stem) >= int(place):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    save_pieces(pieces, folder)


if name and not place.isdigit():
    sys.addaudithook(watch)
if name == "ENOSPC":
    from lowtide.tf.train import checkpoint

    save_pieces, checkpoint.save_pieces = checkpoint.save_pieces, save_or_fail


def dataset():
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(16).batch(BATCH)
    return data.prefetch(2)


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return -(-SAMPLES // BATCH)

    def __getitem__(self, index):
        part = slice(index * BATCH, (index + 1) * BATCH)
        return x[part], y[part]


callbacks = [Fault(), keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=0, factor=0.5)]
given = {"epochs": options.epochs, "callbacks": callbacks, "verbose": 2}
if options.data == "arrays":
    history = model.fit(x, y, batch_size=BATCH, validation_data=(x, y), **given)
elif options.data == "dataset":
    history = model.fit(dataset(), **given)
elif options.data == "sequence":
    history = model.fit(Rows(), **given)
else:
    import lowtide as lt

    data = lt.feed.arrays(x=x, y=y, batch_size=BATCH, shuffle=True, budget="64MiB", seed=3)
    history = model.fit(data, **given)

weights = hashlib.sha256(b"".join(np.asarray(weight).tobytes() for weight in model.get_weights())).hexdigest()
options.result.write_text(json.dumps({"weights": weights, "history": history.history, "epochs": history.epoch}))
