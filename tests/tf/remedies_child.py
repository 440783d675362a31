"""Examines a model, or measures it with a remedy: `python remedies_child.py examine|plain|batch|remat`.

`remat` takes the budget too. The last line that it prints has what was found, as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np

import lowtide as lt
from lowtide.tf.remedies.examine import examine

BATCH = 512
TABLE = np.random.default_rng(0).random((1024, 1024), dtype="float32")


class Lookup(keras.layers.Layer):
    """Looks rows up in an array that it closes over."""

    def call(self, rows: Any) -> Any:
        return keras.ops.take(TABLE, keras.ops.reshape(rows, (-1,)), axis=0)


def build() -> keras.Model:
    given = keras.Input((1,), dtype="int32")
    x = Lookup(name="lookup")(given)
    for _ in range(3):
        x = keras.layers.Dropout(0.1)(keras.layers.Dense(1024, activation="gelu")(x))
    model = keras.Model(given, keras.layers.Dense(10)(x))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def examined() -> dict[str, Any]:
    model = build()
    optimizer, policies = model.optimizer, [layer.dtype_policy.name for layer in model.layers]
    found = examine(model, batch_size=BATCH)
    kept = [model.optimizer is optimizer, policies == [layer.dtype_policy.name for layer in model.layers]]
    return {**found.to_dict(), "kept": kept}


def measured(remedy: str, budget: str | None) -> int:
    model = build()
    if budget is None:
        return lt.measure(model, batch_size=BATCH // 2 if remedy == "batch" else BATCH).step_bytes
    plan = lt.plan(model, budget=budget, batch_size=BATCH)
    return lt.measure(plan.apply(), np.zeros((BATCH, 1), "int32"), np.zeros(BATCH, "int32")).step_bytes


if __name__ == "__main__":
    what, budget = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    print(json.dumps(examined() if what == "examine" else measured(what, budget)))
