"""Trains one of the scripts, as its user would, in a process with a hard limit: plain, or with a plan for a budget."""

from __future__ import annotations

import argparse
from typing import Any

import keras
import tensorflow as tf

import lowtide as lt
from benchmarks.fit.children.common import DEVICE, Meter, answer, parser, write
from benchmarks.fit.scripts.programs import BATCHES, BUILDERS, Script
from benchmarks.fit.suite import STEPS


class _Peaks(keras.callbacks.Callback):
    """The peak of each batch, written down at once: a step that does not fit may end the process."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options, self.peaks, self.before = options, [], []
        self.fitted: Any = None

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        tf.config.experimental.reset_memory_stats(DEVICE)
        self.before.append(tf.config.experimental.get_memory_info(DEVICE)["current"])

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.peaks.append(tf.config.experimental.get_memory_info(DEVICE)["peak"])
        write(self.options, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        return {"peaks": self.peaks, "before": self.before, **describe(self.fitted)}


def describe(fitted: Any) -> dict[str, Any]:
    """What the plan states, where there is one."""
    plan = getattr(fitted, "plan", None)
    return {} if plan is None else {"promised_bytes": plan.peak_bytes, "slowdown": plan.slowdown, "pieces": plan.pieces}


def train(options: argparse.Namespace) -> dict[str, Any]:
    keras.utils.set_random_seed(0)
    script = BUILDERS[options.name]()
    return (_fit if script.model is not None else _loop)(script, options)


def _fit(script: Script, options: argparse.Namespace) -> dict[str, Any]:
    assert script.model is not None
    peaks = _Peaks(options)
    if options.budget is not None:
        peaks.fitted = lt.fit_in(script.model, budget=options.budget)
    x, y = script.data
    script.model.fit(x, y, batch_size=script.batch_size, epochs=STEPS // BATCHES, callbacks=[peaks], verbose=0)
    return peaks.to_dict()


def _loop(script: Script, options: argparse.Namespace) -> dict[str, Any]:
    assert script.step is not None
    wrap = tf.function if options.budget is None else lt.function(budget=options.budget)
    step = wrap(script.step)
    data = tf.data.Dataset.from_tensor_slices(script.data).batch(script.batch_size, drop_remainder=True)
    meter = Meter()
    for batch in data.prefetch(2).repeat().take(STEPS):
        float(meter.run(lambda batch=batch: step(*batch)))
        write(options, {**meter.to_dict(), **describe(step)})
    return {**meter.to_dict(), **describe(step)}


def main() -> None:
    answer(parser(__doc__).parse_args(), train)


if __name__ == "__main__":
    main()
