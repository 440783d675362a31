"""`fit` of a run: it continues where the run is, writes checkpoints, and stops between two steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
from keras.src.trainers.data_adapters.array_slicing import train_validation_split

from lowtide.errors import LowtideError
from lowtide.run.train.fit_hook import has_inner_fit
from lowtide.run.train.history import LeftTraining, TrainingEnded, TrainingStarted
from lowtide.tf.trace import keras_models
from lowtide.tf.train.checkpoint import Checkpointer, Position
from lowtide.tf.train.data.adapter import ResumableAdapter
from lowtide.tf.train.data.choose import training_data
from lowtide.tf.train.refusal_watch import RefusalWatch
from lowtide.tf.train.session import RunSession
from lowtide.tf.train.state import find_variables
from lowtide.tf.train.step_budget import StepBudget
from lowtide.tf.train.step_monitor import StepMonitor, numbers


class RunCallback(keras.callbacks.Callback):
    """A callback that says which run a training belongs to, and does nothing itself."""


class FitTraining:
    """One call of `fit`."""

    def __init__(self, session: RunSession, model: keras.Model, arguments: Mapping[str, Any]) -> None:
        _check_strategy(model)
        self.session = session
        self.model = model
        self.number = session.begin_training(model)
        self.arguments = dict(arguments)
        self.position = Position()
        self.epochs = int(arguments["epochs"])
        self._first = Position()
        """Where this process continues."""
        self._checkpoint: Path | None = None
        self._metric_values: list[Any] = []
        self._logs: Any = None
        self._has_told_inner_fit = False
        split_validation(self.arguments)
        names = ("x", "y", "sample_weight", "batch_size", "shuffle", "class_weight", "steps_per_epoch")
        given = {name: self.arguments[name] for name in names}
        self.data = training_data(**given, seed=session.data_seed(self.number), as_keras=session.is_seeded_by_script)
        self.adapter = ResumableAdapter(self.data)
        self.budget = StepBudget(session, model, self.data, self.number)
        self.checkpointer = Checkpointer(
            session, self.number, self.data, lambda: find_variables(model), lambda: self.callbacks.with_state()
        )
        self.callbacks = _Callbacks(self, verbose=self.arguments["verbose"])
        self.monitor = StepMonitor(session, self.number, self.epochs, self.data.steps, self._save)
        self._refusals: RefusalWatch | None = None

    def run(self, original: Callable[..., Any]) -> Any:
        """Train with Keras's `fit` from where the run is, and return the history of all epochs."""
        try:
            if self.checkpointer.has_ended(self.epochs):
                return self._return_result()
            with self.session.catching_signals():
                arguments = self._arguments_from_here()
                if self.session.is_supervised:
                    self._refusals = RefusalWatch(self.session, lambda: self.monitor.step_began)
                return original(self.model, **arguments)
        except SystemExit as end:
            if not end.code:
                self.session.add(LeftTraining(attempt=self.session.attempt, training=self.number))
            raise
        finally:
            self.monitor.stop()
            if self._refusals is not None:
                self._refusals.stop()

    def _arguments_from_here(self) -> dict[str, Any]:
        """Return the arguments of `fit` with which it continues where the run is."""
        arguments = self.arguments
        found = self.checkpointer.find()
        if found is not None:
            self._checkpoint, self._first = found, self.checkpointer.read(found)
            self.position = replace(self._first)
            arguments["initial_epoch"] = self.epochs if self._first.is_stopping else self._first.epoch
        else:
            self._first = Position(arguments["initial_epoch"])
            self.position = replace(self._first)
        if self.data.note is not None:
            self.session.note(self.data.note)
        batch_size = arguments["batch_size"]
        for name in ("y", "sample_weight", "class_weight"):
            arguments[name] = None
        return arguments | {
            "x": self.adapter,
            "steps_per_epoch": None,
            "batch_size": None,
            "shuffle": False,
            "callbacks": self.callbacks,
            "validation_batch_size": arguments["validation_batch_size"] or batch_size,
        }

    # -- called by the callbacks, in the order of a training -----------------------------------------------------

    def begin(self) -> None:
        """Restore what was saved; Keras has made the training function, and the callbacks have reset themselves."""
        path = self._checkpoint
        if path is not None:
            self._prepare(path)
            self.checkpointer.restore_variables(path)
            self.checkpointer.restore_data(path)
            self.checkpointer.restore_rest(path)
            # Keras's BackupAndRestore has set it, perhaps to a later epoch.
            self.model._initial_epoch = None
            self._metric_values = [variable.numpy() for variable in self.model.metrics_variables]
            if self._first.step:
                self._skip_steps()
        self.session.add(
            TrainingStarted(
                attempt=self.session.attempt, training=self.number, epoch=self._first.epoch, step=self._first.step,
                epochs=self.epochs, steps=self.data.steps, steps_done=self.session.steps_done,
                checkpoint=None if path is None else path.name, can_plan=self.budget.can_plan,
            )
        )  # fmt: skip

    def begin_epoch(self, epoch: int) -> bool:
        """Set the data to this epoch; returns whether its beginning is repeated, and so was seen by the callbacks."""
        is_repeated = epoch == self._first.epoch and self._first.step > 0
        self.position = Position(epoch, self._first.step if is_repeated else 0)
        self.adapter.position = (epoch, self.position.step)
        if is_repeated:
            # Keras has just reset the metrics.
            for variable, value in zip(self.model.metrics_variables, self._metric_values, strict=True):
                variable.assign(value)
        return is_repeated

    def is_skipped(self, step: int) -> bool:
        """Whether the run has done this step before."""
        return self.position.epoch == self._first.epoch and step < self._first.step

    def begin_step(self) -> None:
        """Begin a call of the training function."""
        self.monitor.begin_step()

    def end_step(self, last_step: int, logs: Any) -> None:
        """Count the steps up to the last one of a call of the training function."""
        done = last_step + 1
        if self.data.steps is not None:
            # The last call of an epoch may have run fewer steps.
            done = min(done, self.data.steps)
        steps, self.position.step = done - self.position.step, done
        self.budget.report()
        self._logs = logs
        self.monitor.end_step(steps, self.position.epoch, done, logs)

    def end_epoch(self, epoch: int, logs: Any) -> None:
        """Begin the position of the next epoch."""
        self.position = Position(epoch + 1, 0, is_stopping=bool(self.model.stop_training))
        self._logs = logs
        if has_inner_fit() and not self._has_told_inner_fit:
            self._has_told_inner_fit = True
            self.session.note(
                "a fit inside of this one trains a model that checkpoints do not contain: after a restart it is as the "
                "script has made it"
            )
        self.monitor.end_epoch(epoch, numbers(logs))

    def end(self) -> None:
        """Save the result."""
        self.position.is_end = True
        self._save("end of the training")
        self.session.add(
            TrainingEnded(attempt=self.session.attempt, training=self.number, steps_done=self.session.steps_done)
        )

    # -- helpers -------------------------------------------------------------------------------------------------

    def _save(self, reason: str, *, in_background: bool = False) -> None:
        self.callbacks.finish_dispatched()
        self.position.logs = numbers(self._logs)
        self.checkpointer.save(self.position, reason, in_background=in_background)

    def _skip_steps(self) -> None:
        """Let Keras count through the steps that the run has done, without running them."""
        model, function, first = self.model, self.model.train_function, self._first
        per_call = keras_models.steps_per_call(model)
        left = -(-first.step // per_call)

        def skip(iterator: Any) -> Any:
            nonlocal left
            if left == 0:
                model.train_function = function
                return function(iterator)
            left -= 1
            return dict(first.logs)

        model.train_function = skip

    def _prepare(self, checkpoint: Path) -> None:
        """Create the variables that the first step would create, and no others."""
        model, spec = self.model, self.data.element_spec
        specs = spec if isinstance(spec, tuple) else (spec,)

        def trace() -> None:
            keras_models.train_function(model).get_concrete_function(*specs)

        def prepare() -> None:
            keras_models.prepare(model, specs)

        # A train_step of the script's own may leave `model.optimizer` alone, and use others.
        is_own = type(model).train_step is not keras.Model.train_step
        for create in (trace, prepare) if is_own else (prepare, trace):
            if self.checkpointer.has_variables_of(checkpoint):
                return
            # If that fails, the checkpoint says what is missing.
            with contextlib.suppress(Exception):
                create()

    def _return_result(self) -> Any:
        """Restore the result of a training that ended in an earlier process."""
        end = self.checkpointer.find_end()
        if self.number == self.session.found_training:
            self.session.note(f"training {self.number + 1} of the script had ended: its result is restored")
        if end is not None:
            self._prepare(end)
            self.checkpointer.read(end)
            self.checkpointer.restore_variables(end)
            self.checkpointer.restore_rest(end)
        return self.model.history


class _Callbacks(keras.callbacks.CallbackList):
    """The callbacks of a training: those of the user, and around them the ones of the run."""

    def __init__(self, training: FitTraining, verbose: Any) -> None:
        self._training = training
        callbacks = list_callbacks(training.arguments["callbacks"])
        training.checkpointer.prepare_callbacks(callbacks)
        super().__init__(
            callbacks,
            add_history=True,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=training.epochs,
            steps=training.data.steps,
            model=training.model,
        )

    def with_state(self) -> list[Any]:
        """Return the callbacks that belong to the training itself."""
        return [each for each in self.callbacks if not isinstance(each, RunCallback | keras.callbacks.ProgbarLogger)]

    def finish_dispatched(self) -> None:
        """Wait for the callbacks that run in other threads."""
        if self._async_train:
            self._flush_futures()

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        self._training.begin()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if not self._training.begin_epoch(epoch):
            super().on_epoch_begin(epoch, logs)
            return
        # The callbacks have seen the beginning of this epoch, and their state says so; only the progress bar is new.
        if self._progbar is not None:
            self._progbar.on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self._training.is_skipped(batch):
            super().on_train_batch_begin(batch, logs)
            self._training.begin_step()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._training.is_skipped(batch):
            super().on_train_batch_end(batch, logs)
            self._training.end_step(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        self._training.end_epoch(epoch, logs)

    def on_train_end(self, logs: Any = None) -> None:
        super().on_train_end(logs)
        self._training.end()


def _check_strategy(model: keras.Model) -> None:
    """Refuse a model of a distribution strategy: its variables and its data are spread over devices."""
    strategy = model._distribute_strategy
    if strategy is not None:
        raise LowtideError(
            "a training under a distribution strategy cannot be continued after a restart",
            given=type(strategy).__name__,
            cure="train without the strategy, or without lowtide train and lt.KeepGoing",
        )


def list_callbacks(given: Any) -> list[Any]:
    """Return the callbacks that `fit` was given, as a list."""
    return list(keras.tree.flatten(given.callbacks if isinstance(given, keras.callbacks.CallbackList) else given or []))


def split_validation(arguments: dict[str, Any]) -> None:
    """Set the validation data aside as `fit` does, because the rest is what is trained."""
    share = arguments["validation_split"]
    if share and arguments["validation_data"] is None:
        given = (arguments["x"], arguments["y"], arguments["sample_weight"])
        (arguments["x"], arguments["y"], arguments["sample_weight"]), arguments["validation_data"] = (
            train_validation_split(given, validation_split=share)
        )
    arguments["validation_split"] = 0.0
