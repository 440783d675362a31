"""Trains a Keras model with `fit`, callbacks and validation, from the start or from a saved model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import lowtide as lt
from benchmarks.fit.children.common import answer, parser
from benchmarks.fit.children.train import keep_variables
from benchmarks.fit.children.ways import build_in
from benchmarks.fit.programs import Program, make_batch
from benchmarks.fit.suite import PLANNED, find

EPOCHS, STEPS_PER_EPOCH = 4, 5


def fit(options: argparse.Namespace) -> dict[str, Any]:
    case = find(options.name)
    program = build_in(case, options.way, options.batch_size)
    specs = program.specs
    model = program.models[0]
    if options.load is not None:
        model = keras.models.load_model(options.load)
    if options.way == PLANNED:
        lt.fit_in(model, budget=options.budget)
    seen = _Seen()
    history = model.fit(
        _data(specs, range(4)).repeat(),
        initial_epoch=options.first_epoch,
        epochs=EPOCHS,
        steps_per_epoch=STEPS_PER_EPOCH,
        validation_data=_data(specs, range(4, 5)),
        callbacks=[
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.8),
            *([] if options.save is None else [_Saved(options.save)]),
            seen,
        ],
        verbose=0,
    )
    keep_variables(Program((model,), (model.optimizer,), specs, model), options.variables)
    scores = {name: [float(value) for value in values] for name, values in history.history.items()}
    return {"history": scores, "losses": [[loss] for loss in seen.losses]}


class _Seen(keras.callbacks.Callback):
    """The logs that a callback receives after each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.losses.append(float((logs or {})["loss"]))


class _Saved(keras.callbacks.Callback):
    """Saves the model in the middle of its training."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if epoch == 1:
            self.model.save(self.path)


def _data(specs: tuple[Any, ...], seeds: range) -> tf.data.Dataset:
    data = None
    for seed in seeds:
        one = tf.data.Dataset.from_tensors(make_batch(specs, seed))
        data = one if data is None else data.concatenate(one)
    return data


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--way", required=True)
    arguments.add_argument("--first-epoch", type=int, default=0)
    arguments.add_argument("--load", type=Path, help="a model that was saved")
    arguments.add_argument("--save", type=Path, help="where to keep the model after two epochs")
    arguments.add_argument("--variables", type=Path, required=True)
    answer(arguments.parse_args(), fit)


if __name__ == "__main__":
    main()
