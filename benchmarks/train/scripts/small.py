"""Trains a small model, as a script of a user; a fault happens once.

small.py FOLDER PROGRAM DATA [--fault NAME@STEP] [--backup DIR] [--background]

FOLDER/samples.jsonl gets a line for each step: the process, the number of updates that the weights have seen, the
samples of the batch, and the loss if it is a loop. FOLDER/result.json gets the history, FOLDER/weights.npz the weights.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("program", choices=["mlp", "cnn", "lstm", "loop"])
parser.add_argument("data", choices=["arrays", "dataset", "feed"])
parser.add_argument("--fault", default="", help="a name of FAULTS, with the step after which it happens")
parser.add_argument("--number", type=int, default=0, help="seed of what is random about the fault")
parser.add_argument("--disk", type=Path, help="the folder that becomes full")
parser.add_argument("--backup", type=Path, help="use keras.callbacks.BackupAndRestore")
parser.add_argument("--background", action="store_true", help="write checkpoints of any size in the background")
options = parser.parse_args()
keras.utils.set_random_seed(5)

SAMPLES, BATCH, EPOCHS, CHECKPOINT_STEPS = 40, 6, 3, 4
# Images of the convolutional network are large enough that its activations, not its weights, fill the memory.
SIDE = 40 if options.program == "cnn" else 8
generator = np.random.default_rng(0)
x = generator.normal(size=(SAMPLES, SIDE, SIDE, 1)).astype("float32")
y = generator.integers(0, 3, SAMPLES)
# The first number of a sample tells which one it is.
known = {np.float32(value).tobytes(): index for index, value in enumerate(x[:, 0, 0, 0])}


def record(updates, values, *loss):
    line = [os.getpid(), int(updates), [known[value.tobytes()] for value in values.numpy()], *map(float, loss)]
    with open(options.folder / "samples.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


if options.background:
    from lowtide.tf.train import variables_copy

    variables_copy.LEAST_BYTES = 0


# -- faults ------------------------------------------------------------------------------------------------------------

fault, _, fault_step = options.fault.partition("@")
marker = options.folder / "happened"
chance = random.Random(options.number)
supervisor = None if options.backup else os.getppid()
ballast = []


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def power():
    """The machine loses power: the supervisor is gone too."""
    if supervisor is not None:
        os.kill(supervisor, signal.SIGKILL)
    kill()


def terminate():
    """A preemption: the signal reaches the process that the user started."""
    os.kill(os.getpid() if supervisor is None else supervisor, signal.SIGTERM)
    if supervisor is not None:
        # It is passed on; the training goes on until it arrives.
        time.sleep(chance.choice([0.0, 0.05, 0.5]))


def fill_memory():
    """Something else takes the memory of the device, and keeps all but a few KiB of it."""
    limit = int(os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"]) << 20
    # An allocation that fails is tried again for ten seconds, so as few as possible do.
    with contextlib.suppress(tf.errors.ResourceExhaustedError):
        for size in (1 << 18, 1 << 14):
            while limit - tf.config.experimental.get_memory_info("CPU:0")["current"] > 2 * size:
                ballast.append(tf.fill([size // 4], 1.0))


def fill_disk():
    """Something else fills the disk, up to a few bytes or a part of a checkpoint."""
    free = chance.choice([0, 100, 300, 1000, 5000, 20000])
    with open(options.disk / "other", "wb") as file:
        file.write(bytes(max(os.statvfs(options.disk).f_bavail * os.statvfs(options.disk).f_frsize - free, 0)))


def kill_while_writing():
    """From now on: SIGKILL while a checkpoint is written, at some call for one of its files or shortly after it."""
    left, delay = chance.randrange(1, 45), chance.choice([0.0, chance.random() * 0.01])
    part = str(options.backup) if options.backup else ".part"

    def watch(event, arguments):
        nonlocal left
        if not arguments or not isinstance(arguments[0], str | Path) or part not in str(arguments[0]):
            return
        left -= 1
        if left == 0:
            marker.write_text(f"{event} {Path(arguments[0]).name}, in {threading.current_thread().name}")
            if delay:
                threading.Timer(delay, kill).start()
            else:
                kill()

    sys.addaudithook(watch)


FAULTS = {
    "kill": kill, "checkpoint": kill_while_writing, "terminate": terminate, "memory": fill_memory, "limit": terminate,
    "disk": fill_disk, "flip": power, "truncate": power,
}  # fmt: skip


def disturb(updates):
    if fault and updates >= int(fault_step) and not marker.exists():
        marker.touch()
        FAULTS[fault]()


# -- the training ------------------------------------------------------------------------------------------------------


class Recording(keras.Model):
    def train_step(self, data):
        tf.py_function(record, [self.optimizer.iterations, data[0][:, 0, 0, 0]], [])
        return super().train_step(data)


class Disturbing(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        disturb(int(self.model.optimizer.iterations))


def layers():
    if options.program == "cnn":
        for _ in range(3):
            yield keras.layers.Conv2D(12, 3, padding="same")
            yield keras.layers.BatchNormalization()
            yield keras.layers.ReLU()
        yield keras.layers.GlobalAveragePooling2D()
    elif options.program == "lstm":
        yield keras.layers.Reshape((SIDE, SIDE))
        yield keras.layers.LSTM(32)
    else:
        yield keras.layers.Flatten()
        yield keras.layers.Dense(64, activation="relu")
    yield keras.layers.Dropout(0.3)
    yield keras.layers.Dense(3)


inputs = outputs = keras.Input((SIDE, SIDE, 1))
for layer in layers():
    outputs = layer(outputs)
loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

data = (x, y)
if options.data == "dataset":
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(16).batch(BATCH).prefetch(2)
elif options.data == "feed":
    import lowtide as lt

    data = lt.feed.arrays(x=x, y=y, batch_size=BATCH, shuffle=True, budget="64MiB", seed=3)


def fit():
    model = Recording(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.01), loss_function, metrics=["accuracy"])
    callbacks = [Disturbing(), keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=0, factor=0.5)]
    if options.backup:
        callbacks.append(keras.callbacks.BackupAndRestore(options.backup, save_freq=CHECKPOINT_STEPS))
    given = {"epochs": EPOCHS, "callbacks": callbacks, "verbose": 0}
    if options.data == "arrays":
        return model, model.fit(x, y, batch_size=BATCH, **given).history
    return model, model.fit(data, **given).history


def loop():
    import lowtide as lt

    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.Adam(0.01)

    @tf.function
    def step(x_batch, y_batch):
        with tf.GradientTape() as tape:
            loss = loss_function(y_batch, model(x_batch, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    batch_size = BATCH if options.data == "arrays" else None
    # Under `lowtide train` the path is not used.
    training = lt.Training("unused", model=model, optimizer=optimizer, data=data, batch_size=batch_size)
    for x_batch, y_batch in training.batches(epochs=EPOCHS):
        updates = int(optimizer.iterations)
        record(updates, tf.convert_to_tensor(x_batch)[:, 0, 0, 0], step(x_batch, y_batch))
        disturb(updates + 1)
    return model, {}


trained, history = (loop if options.program == "loop" else fit)()
np.savez(options.folder / "weights.npz", *trained.get_weights())
(options.folder / "result.json").write_text(json.dumps(history))
