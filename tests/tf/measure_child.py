"""The process in which steps are measured: `python measure_child.py here|there FOLDER`.

`here` has the allocator that keeps a record, `there` has not and measures in children of its own. Tides are saved in
FOLDER; everything else that was seen goes to FOLDER/seen.json.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import measured_steps
import numpy as np
import tensorflow as tf

import lowtide as lt

FOLDER = Path(sys.argv[2])
SEEN: dict[str, Any] = {}
layers = keras.layers


def saved(name: str, measure: Callable[[], lt.Tide]) -> None:
    measure().save(FOLDER / f"{name}.tide")


def refused(name: str, measure: Callable[[], lt.Tide]) -> None:
    try:
        measure()
        SEEN[name] = None
    except Exception as error:
        SEEN[name] = [type(error).__name__, str(error)]


def images() -> keras.Model:
    """Return a model with all that a step changes: weights, averages, seeds, slots, counters, metrics."""
    model = keras.Sequential([
        keras.Input((16, 16, 3)), layers.Conv2D(8, 3, name="filters"), layers.BatchNormalization(name="norm"),
        layers.Dropout(0.5, name="drop"), layers.Flatten(), layers.Dense(10, name="out"),
    ])  # fmt: skip
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(np.ones((8, 16, 16, 3), "float32"), np.arange(8), verbose=0)
    return model


def contents(*owners: Any) -> list[np.ndarray]:
    variables = [variable for owner in owners for variable in owner.variables]
    variables += [variable for owner in owners for variable in getattr(owner, "metrics_variables", ())]
    return [variable.numpy() for variable in variables]


def same(before: list[np.ndarray], after: list[np.ndarray]) -> bool:
    return len(before) == len(after) and all(np.array_equal(*pair) for pair in zip(before, after, strict=True))


def in_use(key: str) -> int:
    return tf.config.experimental.get_memory_info("CPU:0")[key]


def a_model() -> None:
    model = images()
    before, function = contents(model, model.optimizer), model.train_function
    stages: list[str] = []
    saved("model", lambda: lt.measure(model, batch_size=32, progress=lambda progress: stages.append(progress.stage)))
    SEEN["model unchanged"] = same(before, contents(model, model.optimizer)) and model.train_function is function
    SEEN["weights"] = sum(int(variable.numpy().nbytes) for variable in model.weights)
    SEEN["stages"] = stages
    data = np.ones((40, 16, 16, 3), "float32"), np.zeros(40, "int32")
    saved("data", lambda: lt.measure(model, *data, batch_size=24, steps=2, label="mine"))
    refused("few rows", lambda: lt.measure(model, *data, batch_size=64))
    batches = tf.data.Dataset.from_tensor_slices(data).batch(24)
    saved("dataset", lambda: lt.measure(model, batches, steps=1))
    refused("no element", lambda: lt.measure(model, batches.take(0)))


def a_step_that_reads_the_statistics() -> None:
    """Its optimizer creates its variables in the first call."""
    net = keras.Sequential([keras.Input((32,)), layers.Dense(300, activation="relu"), layers.Dense(5)])
    optimizer, peaks = keras.optimizers.Adam(), []

    @tf.function
    def update(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x, training=True) - y))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True)
        )
        return loss

    def step(x, y):
        tf.config.experimental.reset_memory_stats("CPU:0")
        update(x, y)
        peaks.append(in_use("peak"))

    before = contents(net)
    specs = tf.TensorSpec((None, 32)), tf.TensorSpec((None, 5))
    saved("step", lambda: lt.measure(step, *specs, batch_size=256))
    SEEN["peaks"] = peaks
    SEEN["step unchanged"] = same(before, contents(net))
    # Before the first step, all but the learning rate is zero.
    SEEN["slots"] = [float(np.abs(variable.numpy()).sum()) for variable in optimizer.variables]


def a_table_of_which_rows_are_updated() -> None:
    """From then on every read of the variable is a copy; one that lowtide made would count."""
    table, peaks = tf.Variable(tf.random.normal((4096, 64)), name="table"), []

    @tf.function
    def update(rows):
        table.scatter_sub(tf.IndexedSlices(tf.gather(table, rows), rows))

    def step(rows):
        tf.config.experimental.reset_memory_stats("CPU:0")
        update(rows)
        peaks.append(in_use("peak"))

    rows = tf.range(16)
    saved("fresh table", lambda: lt.measure(step, rows))
    SEEN["fresh table"] = peaks[-3:]
    update(rows)
    saved("table", lambda: lt.measure(step, rows))
    SEEN["table"] = peaks[-3:]


def steps_of_other_kinds() -> None:
    counter, weight = tf.Variable(5), tf.Variable(tf.random.normal((64, 64)))
    before = weight.numpy()

    def eager(x):
        counter.assign_add(1)
        weight.assign_add(tf.matmul(x, x))

    saved("eager", lambda: lt.measure(eager, np.ones((64, 64), "float32")))
    SEEN["eager unchanged"] = bool(counter.numpy() == 5 and np.array_equal(weight.numpy(), before))

    def failing(x):
        weight.assign(x)
        raise ValueError("this step is broken")

    refused("failing", lambda: lt.measure(failing, tf.TensorSpec((64, 64))))
    SEEN["unchanged after an error"] = bool(np.array_equal(weight.numpy(), before))
    words = keras.Sequential([keras.Input((20,)), layers.Embedding(500, 64), layers.Flatten(), layers.Dense(1)])
    words.compile("sgd", "mse", jit_compile=True)
    saved("compiled", lambda: lt.measure(words, batch_size=64))
    first, second = keras.Input((4,)), keras.Input((3,), dtype="int32")
    joined = layers.Concatenate()([layers.Flatten()(layers.Embedding(9, 2)(second)), layers.Dense(2)(first)])
    several = keras.Model([first, second], [layers.Dense(1)(joined), layers.Dense(2)(joined)])
    several.compile("sgd", ["mse", "mae"])
    saved("several", lambda: lt.measure(several, batch_size=16))


def beside_others() -> None:
    held = tf.fill((512, 1024), 1.0), tf.Variable(tf.fill((512, 1024), 2.0))
    specs = tf.TensorSpec((8, 32)), tf.TensorSpec((8, 300))
    saved("beside", lambda: lt.measure(measured_steps.step, *specs))
    tf.profiler.experimental.start(tempfile.mkdtemp(dir=FOLDER))
    refused("profiler", lambda: lt.measure(measured_steps.step, *specs))
    tf.profiler.experimental.stop()
    del held


def asked_wrongly() -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    refused("not compiled", lambda: lt.measure(model, batch_size=2))
    refused("no step", lambda: lt.measure(3))
    refused("no steps", lambda: lt.measure(measured_steps.step, steps=0))
    refused("no batch", lambda: lt.measure(measured_steps.step, tf.TensorSpec((None, 32)), tf.TensorSpec((None, 300))))


def in_children() -> None:
    model = images()
    before = contents(model, model.optimizer)
    saved("model", lambda: lt.measure(model, batch_size=32))
    SEEN["model unchanged"] = same(before, contents(model, model.optimizer))
    own = keras.Sequential([keras.Input((4,)), measured_steps.Doubled(3, name="doubled")])
    own.compile("sgd", measured_steps.square)
    saved("own", lambda: lt.measure(own, batch_size=8))
    saved("step", lambda: lt.measure(measured_steps.step, np.ones((256, 32), "float32"), tf.TensorSpec((256, 300))))
    refused("greedy", lambda: lt.measure(measured_steps.greedy, tf.constant(1.0)))
    refused("broken", lambda: lt.measure(measured_steps.broken, tf.constant(1.0)))
    refused("local", lambda: lt.measure(lambda x: x, tf.constant(1.0)))
    refused("generator", lambda: lt.measure(measured_steps.greedy, (number for number in range(3))))

    class Local(keras.layers.Dense):
        pass

    local = keras.Sequential([keras.Input((4,)), Local(3)])
    local.compile("sgd", "mse")
    refused("local layer", lambda: lt.measure(local, batch_size=8))
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        SEEN["no children"] = True


if sys.argv[1] == "here":
    a_model()
    a_step_that_reads_the_statistics()
    a_table_of_which_rows_are_updated()
    steps_of_other_kinds()
    beside_others()
    asked_wrongly()
else:
    in_children()
(FOLDER / "seen.json").write_text(json.dumps(SEEN))
