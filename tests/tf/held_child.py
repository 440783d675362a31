"""Trains a planned model in a process that also holds a tensor: `python held_child.py BUDGET_MIB HELD_MIB`.

The model's optimizer is built while its step is traced. Prints what was seen, as JSON.
"""

from __future__ import annotations

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import lowtide as lt
from lowtide.planning.plan import NoPlanError
from lowtide.tf.references.holders import address_of

BUDGET_MIB, HELD_MIB = int(sys.argv[1]), int(sys.argv[2])
STEPS, ROWS = 6, 2048


def main() -> None:
    keras.utils.set_random_seed(1)
    held = tf.fill((HELD_MIB, 1 << 18), 1.0) if HELD_MIB else None
    layers = [keras.layers.Dense(512, activation="relu") for _ in range(8)]
    model = keras.Sequential([keras.Input((256,)), *layers, keras.layers.Dense(4)])
    model.compile("adam", "mse")
    fitted = lt.fit_in(model, budget=f"{BUDGET_MIB}MiB", only="recompute")
    batch = np.zeros((ROWS, 256), "float32"), np.zeros((ROWS, 4), "float32")
    data = tf.data.Dataset.from_tensors(batch).repeat(STEPS)
    seen: dict[str, object] = {}
    try:
        model.fit(data, verbose=0)
    except NoPlanError as error:
        print(json.dumps({"no plan": str(error)}))
        return
    assert fitted.plan is not None
    addresses = [address_of(variable.value.read_value()) for variable in model.optimizer.variables]
    seen["plan"] = fitted.plan.peak_bytes
    seen["is planned"] = not fitted.plan.changes_nothing
    seen["outside"] = fitted.plan.before.peak_bytes - fitted.plan.before.step_bytes
    seen["shared"] = len(addresses) - len(set(addresses))
    seen["steps"] = int(model.optimizer.iterations.numpy())
    print(json.dumps(seen))
    del held


main()
