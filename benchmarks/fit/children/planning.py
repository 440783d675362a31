"""How long planning takes for a published model's step, beside what a prediction of the same step takes."""

from __future__ import annotations

import argparse
import time
from typing import Any

import keras

import lowtide as lt
from benchmarks.fit.children.common import answer, parser


def build(name: str, image: int) -> Any:
    model = getattr(keras.applications, name)(weights=None, input_shape=(image, image, 3))
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
    started = time.perf_counter()
    plan = lt.plan(model, batch_size=options.batch_size, budget=budget)
    return {
        "plan_seconds": time.perf_counter() - started,
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
