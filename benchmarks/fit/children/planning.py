"""How long planning takes for a published model's step, beside what a prediction of the same step takes."""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from typing import Any

import keras

import lowtide as lt
from benchmarks.fit.children.common import answer, parser

BLOCKS = 1000


def deep() -> Any:
    """A step of more than 100,000 nodes: no published model has so many."""
    # Keras walks a model by calling itself for each layer.
    sys.setrecursionlimit(100 * BLOCKS)
    value = inputs = keras.Input((64,))
    for _ in range(BLOCKS):
        branch = keras.layers.BatchNormalization()(keras.layers.Dense(64)(value))
        value = keras.layers.Add()([value, keras.layers.Dropout(0.1)(keras.layers.ReLU()(branch))])
    return keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(value))


def build(name: str, image: int) -> Any:
    known = getattr(keras.applications, name, None)
    model = deep() if known is None else known(weights=None, input_shape=(image, image, 3))
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return model


def time_planning(options: argparse.Namespace) -> dict[str, Any]:
    model = build(options.name, options.image)
    started = time.perf_counter()
    tide = lt.predict(model, batch_size=options.batch_size)
    predicted = time.perf_counter() - started
    variables = sum(variable.value.numpy().nbytes for variable in (*model.variables, *model.optimizer.variables))
    budget = variables + int(options.share * (tide.safe_bytes - variables))
    # A model of its own, so that nothing is left to planning of what the prediction has traced.
    model = build(options.name, options.image)
    told: list[tuple[str, float]] = []
    started = time.perf_counter()
    plan = lt.plan(
        model,
        batch_size=options.batch_size,
        budget=budget,
        progress=lambda text: told.append((text, time.perf_counter())),
    )
    ended = time.perf_counter()
    # What comes before the first word after "tracing" is Keras's and TensorFlow's, and is there without a plan too.
    traced = next(after for (text, _), (_, after) in pairwise(told) if text == "tracing")
    return {
        "plan_seconds": ended - traced,
        "trace_seconds": traced - started,
        "traced_nodes": tide.building.traced_nodes,
        "predict_seconds": predicted,
        "executed_nodes": tide.building.executed_nodes,
        "before_bytes": plan.before.safe_bytes,
        "promised_bytes": plan.peak_bytes,
        "slowdown": plan.slowdown,
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--image", type=int, default=224)
    arguments.add_argument("--share", type=float, default=0.5, help="of what the step takes on top of its variables")
    answer(arguments.parse_args(), time_planning)


if __name__ == "__main__":
    main()
