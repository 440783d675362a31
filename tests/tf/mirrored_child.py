"""The process in which a model trains on two devices, plainly and planned: `python mirrored_child.py OUT`.

Devices are made before TensorFlow's runtime starts, so this cannot be done in the process of other tests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import lowtide as lt

L = keras.layers
DEVICES = ["CPU:0", "CPU:1"]
ROWS = 4096
CHANCE = np.random.default_rng(0)
X, Y = CHANCE.random((ROWS, 64), np.float32), CHANCE.random((ROWS, 4), np.float32)


def build(strategy: tf.distribute.Strategy) -> keras.Model:
    """BatchNormalization keeps `fit_in` from splitting the batch, so that all is by order and recomputation."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        dense = [L.Dense(128, activation="relu") for _ in range(5)]
        model = keras.Sequential([keras.Input((64,)), *dense, L.BatchNormalization(), L.Dropout(0.2), L.Dense(4)])
        model.compile(keras.optimizers.SGD(0.05), "mse")
        model.optimizer.build(model.trainable_variables)
    return model


def run_steps(strategy: tf.distribute.Strategy, model: keras.Model, wrap: Callable[..., Any]) -> Any:
    """A loop of one's own, as TensorFlow's guide has it."""

    def on_one_device(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x, training=True) - y) ** 2) / ROWS
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    step = wrap(lambda x, y: strategy.reduce("SUM", strategy.run(on_one_device, args=(x, y)), axis=None))
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(ROWS).repeat(2)
    losses = [float(step(*batch)) for batch in strategy.experimental_distribute_dataset(data)]
    return step, losses


def run_fit(model: keras.Model) -> list[float]:
    return model.fit(X, Y, batch_size=ROWS, epochs=2, shuffle=False, verbose=0).history["loss"]


def share_of(tide: lt.Tide, share: float) -> int:
    held = int(tide.curve.bytes_in_use[0])
    return held + int((tide.safe_bytes - held) * share)


def compare(plans: list[lt.Plan], expected: list[float], found: list[float], one: keras.Model, two: keras.Model) -> Any:
    """What the test asks."""
    (plan,) = plans
    again = [action.subject for action in plan.actions if action.kind == "recompute"]
    pairs = zip(one.variables, two.variables, strict=True)
    return {
        "peak_bytes": plan.peak_bytes,
        "budget_bytes": plan.budget_bytes,
        "pieces": plan.pieces,
        "notes": plan.after.notes,
        "recomputed": [sum(("replica_1" in name) is second for name in again) for second in (False, True)],
        "losses": (expected, found),
        "apart": max(float(np.max(np.abs(left.numpy() - right.numpy()))) for left, right in pairs),
    }


def main(out: Path) -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * len(DEVICES))
    strategy = tf.distribute.MirroredStrategy(DEVICES)
    plain, planned = build(strategy), build(strategy)
    seen, _ = run_steps(strategy, build(strategy), lt.function(budget="1TiB"))
    budget = share_of(seen.plan.before, 0.8)
    _, expected = run_steps(strategy, plain, tf.function)
    step, found = run_steps(strategy, planned, lt.function(budget=budget))
    results = {"steps": compare(step.plans, expected, found, plain, planned)}

    plain, planned = build(strategy), build(strategy)
    fitted = lt.fit_in(planned, budget=budget)
    expected, found = run_fit(plain), run_fit(planned)
    results["fit"] = compare(fitted.plans, expected, found, plain, planned)
    out.write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
