"""`lt.Training`: a training loop written by hand that continues where it was when its process ended."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend

from lowtide.errors import LowtideError
from lowtide.run.train.history import TrainingEnded, TrainingStarted
from lowtide.tf.train.checkpoint import Checkpointer, Position
from lowtide.tf.train.data.choose import training_data
from lowtide.tf.train.session import check_intervals, open_session, supervised_session
from lowtide.tf.train.state import find_variables, has_variables
from lowtide.tf.train.step_monitor import StepMonitor, numbers
from lowtide.units import format_bytes

_PLANNED_FUNCTIONS = "lowtide.tf.plan.function"


class Training:
    """A training loop with checkpoints.

        training = lt.Training("runs/a", model=model, optimizer=optimizer, data=data)
        for x, y in training.batches(epochs=10):
            loss = train_step(x, y)

    `data` is a `tf.data.Dataset`, a dataset of `lt.feed`, a `PyDataset`, or a tuple of arrays, which are shuffled and
    batched with `batch_size`. What changes from step to step is given by keyword and restored: models, optimizers,
    metrics, `tf.Variable`s, and lists and dictionaries of them. Checkpoints are written between two steps: every
    `minutes`, after every `steps` if that is given, at the ends of epochs, and when the process gets SIGTERM or SIGINT.

    Under `lowtide train` its directory and its options for checkpoints are used, and those given here are not.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        data: Any,
        batch_size: int | None = None,
        shuffle: bool = True,
        minutes: float | None = None,
        steps: int | None = None,
        **state: Any,
    ) -> None:
        if not state:
            cure = "name what is trained: model=model, optimizer=optimizer"
            raise LowtideError("there is nothing to save", given="no model and no variable", cure=cure)
        for name, each in state.items():
            unknown = [leaf for leaf in keras.tree.flatten(each) if not has_variables(leaf)]
            if unknown:
                cure = "give models, optimizers, metrics and variables: a number can be a tf.Variable"
                raise LowtideError("this cannot be restored", given=f"{name}={unknown[0]!r}", cure=cure)
        if data is None:
            raise LowtideError("a training needs data", given="data=None", cure="give a dataset or a tuple of arrays")
        check_intervals(minutes, steps)
        seconds = None if minutes is None else minutes * 60
        self.session = supervised_session() or open_session(path, seconds=seconds, steps=steps)
        self.number = self.session.begin_training(self)
        self.state = state
        x, y, weights = (*data, None, None)[:3] if isinstance(data, tuple) else (data, None, None)
        self.data = training_data(
            x, y, weights, batch_size=batch_size, shuffle=shuffle, seed=self.session.data_seed(self.number)
        )
        self.logs: dict[str, float] = {}
        """Numbers to report with the epoch: set `training.logs["loss"]`."""
        self._checkpointer = Checkpointer(
            self.session, self.number, self.data, self._variables, describe=self._describe_optimizers
        )
        self._position = Position()
        if self.data.note is not None:
            self.session.note(self.data.note)
        budget = self.session.settings.budget_bytes
        if budget is not None and _PLANNED_FUNCTIONS not in sys.modules:
            self.session.note(
                "the step of a loop written by hand is not planned for the budget, unless the script makes it with "
                f"@lt.function(budget='{format_bytes(budget)}')"
            )
        checkpointer = self._checkpointer
        self._checkpoint = checkpointer.find_end() if checkpointer.has_ended() else checkpointer.find()
        if self._checkpoint is not None:
            self._position = checkpointer.read(self._checkpoint)
            self._build(checkpointer.description(self._checkpoint)["optimizers"])
            checkpointer.restore_variables(self._checkpoint)
            checkpointer.restore_data(self._checkpoint)
            checkpointer.restore_rest(self._checkpoint)
            self.logs = dict(self._position.logs)

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._position.epoch

    @property
    def step(self) -> int:
        """The number of the next batch within its epoch."""
        return self._position.step

    @property
    def steps_done(self) -> int:
        """The steps of the whole run, those of earlier processes included."""
        return self.session.steps_done

    def batches(self, epochs: int) -> Iterator[Any]:
        """Yield the batches that are left; a batch counts as trained once the next one is requested."""
        session, position = self.session, self._position
        if self._checkpointer.has_ended(epochs):
            return
        session.add(
            TrainingStarted(
                attempt=session.attempt, training=self.number, epoch=position.epoch, step=position.step, epochs=epochs,
                steps=self.data.steps, steps_done=session.steps_done,
                checkpoint=None if self._checkpoint is None else self._checkpoint.name, can_plan=False,
            )
        )  # fmt: skip
        monitor = StepMonitor(session, self.number, epochs, self.data.steps, self._save)
        with session.catching_signals():
            try:
                while position.epoch < epochs:
                    yield from self._epoch(monitor)
                    done, position.epoch, position.step = position.epoch, position.epoch + 1, 0
                    monitor.end_epoch(done, numbers(self.logs))
            finally:
                monitor.stop()
        position.is_end = True
        self.save("end of the training")
        session.add(TrainingEnded(attempt=session.attempt, training=self.number, steps_done=session.steps_done))

    def save(self, reason: str = "requested by the script") -> None:
        """Write a checkpoint now; between two steps, so before the next batch is requested."""
        self._save(reason)

    def _save(self, reason: str, *, in_background: bool = False) -> None:
        self._position.logs = numbers(self.logs)
        self._checkpointer.save(self._position, reason, in_background=in_background)

    def _epoch(self, monitor: StepMonitor) -> Iterator[Any]:
        position = self._position
        self.data.begin_epoch(position.epoch, position.step)
        iterator = self.data.iterator()
        while self.data.steps is None or position.step < self.data.steps:
            batch = next(iterator, None)
            if batch is None:
                break
            monitor.begin_step()
            yield batch
            position.step += 1
            monitor.end_step(1, position.epoch, position.step, self.logs)

    def _leaves(self) -> list[Any]:
        return keras.tree.flatten(self.state)

    def _build(self, optimizers: list[list[int] | None]) -> None:
        """Create the variables that the first step has created, so that they can be restored."""
        spec = self.data.element_spec
        batch = tf.nest.map_structure(lambda each: keras.KerasTensor(tuple(each.shape), dtype=each.dtype.name), spec)
        inputs = batch[0] if isinstance(batch, tuple) else batch
        for each in self._leaves():
            if isinstance(each, keras.Model) and not all(layer.built for layer in each._flatten_layers()):
                # A model that takes something else is built by the script, or the checkpoint says what is missing.
                with contextlib.suppress(Exception):
                    backend.compute_output_spec(each, inputs)
        weights = self._weights()
        for optimizer, trained in zip(self._optimizers(), optimizers, strict=False):
            if not optimizer.built and trained is not None and max(trained, default=0) < len(weights):
                optimizer.build([weights[number] for number in trained])

    def _describe_optimizers(self) -> dict[str, Any]:
        """Return which weights each optimizer trains, by their numbers; None if it is not built."""
        numbers = {_handle(weight): number for number, weight in enumerate(self._weights())}
        trained = [
            [_handle(variable) for variable in each._trainable_variables] if each.built else None
            for each in self._optimizers()
        ]
        known = [each if each is not None and numbers.keys() >= set(each) else None for each in trained]
        return {"optimizers": [None if each is None else [numbers[handle] for handle in each] for each in known]}

    def _optimizers(self) -> list[Any]:
        return [each for each in self._leaves() if isinstance(each, keras.optimizers.Optimizer)]

    def _weights(self) -> list[Any]:
        return find_variables([each for each in self._leaves() if not isinstance(each, keras.optimizers.Optimizer)])

    def _variables(self) -> list[Any]:
        return find_variables(list(self.state.values()))


def _handle(variable: Any) -> int:
    return id((variable if isinstance(variable, tf.Variable) else variable.value).handle)
