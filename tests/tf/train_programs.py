"""Small training programs whose every bit is compared, and what is asked of them in a process of its own.

`python train_programs.py continue FOLDER` restores and trains on; `devices FOLDER` saves and restores replicas; `full
FOLDER` saves to a disk without room; `memory FOLDER` says what writing and restoring a variable in copy-on-read mode
takes from the allocator; `copy FOLDER` says the same of a copy of variables.
"""

from __future__ import annotations

import gc
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lowtide.run.machine import resident_bytes
from lowtide.tf.trace.keras_models import prepare
from lowtide.tf.train.plain_data import load_state
from lowtide.tf.train.state import find_variables, restore_random
from lowtide.tf.train.variables import restore_variables, save_pieces, save_variables
from lowtide.tf.train.variables_copy import copy_variables

layers = keras.layers
ROWS, FEATURES = 16, 6


def batches(count: int, first: int = 0, shape: tuple[int, ...] = (FEATURES,)) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return batches number `first` and on."""
    numbers = [np.random.default_rng(1000 + first + number) for number in range(count)]
    return [(rng.normal(size=(ROWS, *shape)).astype("float32"), rng.integers(0, 3, ROWS)) for rng in numbers]


def network() -> keras.Model:
    """Return a model with averages, seeds, a schedule, and metrics."""
    model = keras.Sequential([
        keras.Input((FEATURES,)), layers.GaussianNoise(0.1), layers.Dense(8, activation="relu"),
        layers.BatchNormalization(), layers.Dropout(0.3), layers.Dense(3),
    ])  # fmt: skip
    schedule = keras.optimizers.schedules.ExponentialDecay(0.05, decay_steps=2, decay_rate=0.7)
    return compiled(model, keras.optimizers.Adam(schedule))


def compiled(model: keras.Model, optimizer: Any) -> keras.Model:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        optimizer, loss, metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)], jit_compile=False
    )
    return model


class Gan(keras.Model):
    """Two models and two optimizers, of which none is `model.optimizer`; a counter of TensorFlow; a global seed."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = keras.Sequential([keras.Input((4,)), layers.Dense(FEATURES)])
        self.judge = keras.Sequential([keras.Input((FEATURES,)), layers.Dropout(0.2), layers.Dense(1)])
        self.optimizers = {"maker": keras.optimizers.Adam(0.01), "judge": keras.optimizers.RMSprop(0.01)}
        self.loss_tracker = keras.metrics.Mean()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        for name, optimizer in self.optimizers.items():
            optimizer.build(getattr(self, name).trainable_variables)
        # Already sampled from, so that Keras's global generator exists.
        keras.random.normal((1,))

    def train(self, real: np.ndarray) -> float:
        return float(self._train(tf.constant(real)))

    @tf.function
    def _train(self, real: tf.Tensor) -> tf.Tensor:
        noise = keras.random.normal((ROWS, 4)) + tf.random.get_global_generator().normal((ROWS, 4))
        with tf.GradientTape(persistent=True) as tape:
            judged = self.judge(self.maker(noise), training=True), self.judge(real, training=True)
            lost = {"maker": tf.reduce_mean(judged[0] ** 2), "judge": tf.reduce_mean(judged[1] ** 2 - judged[0])}
        for name, optimizer in self.optimizers.items():
            optimizer.apply(tape.gradient(lost[name], getattr(self, name).trainable_variables))
        self.steps.assign_add(1)
        self.loss_tracker.update_state(lost["judge"])
        return self.loss_tracker.result()


def train(model: keras.Model, data: list[tuple[np.ndarray, np.ndarray]]) -> list[dict[str, float]]:
    return [
        {name: float(value) for name, value in model.train_on_batch(x, y, return_dict=True).items()} for x, y in data
    ]


def ready(model: keras.Model, shape: tuple[int, ...] = (FEATURES,)) -> keras.Model:
    """Build what `fit` would build before its first step."""
    prepare(model, (tf.TensorSpec((None, *shape)), tf.TensorSpec((None,), tf.int64)))
    return model


def contents(model: keras.Model) -> list[np.ndarray]:
    return [np.asarray(variable.numpy()) for variable in find_variables(model)]


def restored_training(folder: Path) -> dict[str, Any]:
    model = ready(network())
    restore_variables(find_variables(model), folder)
    restore_random(load_state(folder)["random"])
    logs = train(model, batches(3, 5))
    np.savez(folder / "continued.npz", **{str(number): value for number, value in enumerate(contents(model))})
    return {"logs": logs, "random": float(np.random.normal())}


def measure_memory(folder: Path) -> dict[str, int]:
    # TensorFlow copies slices whose rows are not a multiple of 64 bytes.
    shape = (1000, 51, 1028)
    large = tf.Variable(tf.random.normal(shape), name="large")
    small = [tf.Variable(tf.random.normal((256, 1024))) for _ in range(30)]
    before = large[700].numpy()
    row = large[0].numpy()

    def update_in_place() -> None:
        tf.raw_ops.ResourceScatterUpdate(resource=large.handle, indices=[0], updates=row[None])

    update_in_place()
    variables = [large, *small]
    figures = {
        "plain read": peak_above(lambda: large.value()),
        "save": peak_above(lambda: save_variables(variables, folder)),
        "update after save": peak_above(update_in_place),
        "restore": peak_above(lambda: restore_variables(variables, folder)),
        "read after restore": peak_above(lambda: large.value()),
        "variable": math.prod(shape) * 4,
    }
    assert np.array_equal(large[700].numpy(), before)
    return figures


def measure_copy(folder: Path) -> dict[str, int]:
    variables = [tf.Variable(tf.random.normal((1000, 51, 1028)), name="large")]
    variables += [tf.Variable(tf.random.normal((256, 1024))) for _ in range(30)]
    variables.append(tf.Variable(tf.random.normal((1024, 1024), dtype=tf.bfloat16)))
    in_use = tf.config.experimental.get_memory_info("CPU:0")["current"]
    resident = resident_bytes()
    copied: list[Any] = []
    figures = {
        "copy": peak_above(lambda: copied.extend(copy_variables(variables) or ())),
        "held by the copy": tf.config.experimental.get_memory_info("CPU:0")["current"] - in_use,
        "resident with the copy": resident_bytes() - resident,
        "save": peak_above(lambda: save_pieces(copied, folder)),
        "variable": 1000 * 51 * 1028 * 4,
    }
    copied.clear()
    return {**figures, "resident after it": resident_bytes() - resident}


def continue_on_two_devices(folder: Path) -> bool:
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        model = network()
    x, y = batches(1)[0]
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    variables = find_variables(model)
    before = contents(model)
    save_variables(variables, folder)
    model.fit(x, y, batch_size=8, verbose=0)
    changed = sum(not np.array_equal(*pair) for pair in zip(before, contents(model), strict=True))
    restore_variables(variables, folder)
    same = all(np.array_equal(*pair) for pair in zip(before, contents(model), strict=True))
    return len({variable.handle.device for variable in variables}) == 2 and changed > 20 and same


def save_to_full_disk(folder: Path) -> list[Any]:
    try:
        save_variables([tf.Variable(tf.random.normal((1 << 20,)))], folder)
    except OSError as error:
        return [error.errno, error.filename]
    return []


def peak_above(call: Any) -> int:
    """Return the highest memory in use during a call above that before it."""
    gc.collect()
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    call()
    return tf.config.experimental.get_memory_info("CPU:0")["peak"] - before


if __name__ == "__main__":
    parts: dict[str, Callable[[Path], Any]] = {
        "continue": restored_training,
        "copy": measure_copy,
        "devices": continue_on_two_devices,
        "full": save_to_full_disk,
        "memory": measure_memory,
    }
    print(json.dumps(parts[sys.argv[1]](Path(sys.argv[2]))))
