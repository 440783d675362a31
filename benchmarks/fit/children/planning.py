"""How long planning takes for the step of a published model, and for one of more than 100,000 nodes."""

from __future__ import annotations

import argparse
import time
from typing import Any

import keras

import lowtide as lt
from benchmarks.fit.children.common import answer, parser
from lowtide.tf.trace.predict import predict


def towers(image: int) -> Any:
    """Two published models that share an input: more than 100,000 nodes, which no published model has."""
    inputs = keras.Input((image, image, 3))
    answers = [
        getattr(keras.applications, name)(weights=None, input_shape=(image, image, 3))(inputs)
        for name in ("EfficientNetV2L", "ResNet101")
    ]
    return keras.Model(inputs, keras.layers.average(answers))


def build(name: str, image: int) -> Any:
    known = getattr(keras.applications, name, None)
    model = towers(image) if known is None else known(weights=None, input_shape=(image, image, 3))
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return model


def time_planning(options: argparse.Namespace) -> dict[str, Any]:
    model = build(options.name, options.image)
    stages: dict[str, float] = {}
    tide = predict(model, batch_size=options.batch_size, timings=stages)
    variables = sum(variable.value.numpy().nbytes for variable in (*model.variables, *model.optimizer.variables))
    budget = variables + int(options.share * (tide.safe_bytes - variables))
    # The model's trace is known by now, and so is what Grappler made of it: what is timed is planning alone.
    started = time.perf_counter()
    plan = lt.plan(model, batch_size=options.batch_size, budget=budget)
    return {
        "plan_seconds": time.perf_counter() - started,
        "trace_seconds": stages["trace"],
        "grappler_seconds": stages["grappler"],
        "traced_nodes": tide.building.traced_nodes,
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
