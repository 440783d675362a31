"""`lt.fit_in`: `model.fit` within a budget."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import reduce_per_replica

from lowtide.errors import LowtideError
from lowtide.planning.allowance import check_allow
from lowtide.planning.measured_costs import MeasuredTimes, Recorded, measured_times
from lowtide.planning.plan import NoPlanError, Plan
from lowtide.progress import ProgressCallback
from lowtide.tf.plan.function import Function
from lowtide.tf.plan.plan import plan_first
from lowtide.tf.plan.variants import Variant, allowable, check_only, variants_of
from lowtide.tf.trace import keras_models as models
from lowtide.tf.trace.step import Step, collect_metadata
from lowtide.units import parse_bytes


def fit_in(
    model: keras.Model,
    budget: str | int,
    *,
    allow: Sequence[str] = (),
    only: str | None = None,
    recorded: Recorded | None = None,
    progress: ProgressCallback | None = None,
) -> Fitted:
    """Let a compiled model train within a budget: `fit` and `train_on_batch` work as always.

    The step is planned when the first batch of a new shape arrives. Costs of ops come from a `recorded` step, if one is
    given. With `only="recompute"` the batch is not split. Returns an object with the plans and an `undo` method.
    """
    if not isinstance(model, keras.Model):
        cure = "for a step of your own use @lt.function(budget=...)"
        raise LowtideError("only a Keras model can be fitted", given=type(model).__name__, cure=cure)
    if model.compiled and model.run_eagerly:
        raise LowtideError(
            "a model that runs eagerly has no graph to plan",
            given=f"{model.name}, compiled with run_eagerly=True",
            cure="compile it without run_eagerly",
        )
    check_only(only)
    return Fitted(model, parse_bytes(budget), check_allow(allow), progress, measured_times(recorded), only)


class Fitted:
    """A model whose training steps are planned."""

    def __init__(
        self,
        model: keras.Model,
        budget_bytes: int,
        allow: tuple[str, ...],
        progress: ProgressCallback | None,
        times: MeasuredTimes | None = None,
        only: str | None = None,
    ) -> None:
        self.model = model
        self.budget_bytes = budget_bytes
        self.allow = allow
        self.only = only
        self._progress = progress
        self._times = times
        self._step: Function | None = None
        self.pieces: dict[int | None, int] = {}
        """For sizes of batches, the micro-batches to prefer: another number rounds in another way."""
        # Keras gets the training function from this method, also after the model is compiled again.
        model.make_train_function = self._make_train_function
        model.train_function = None

    @property
    def plans(self) -> list[Plan]:
        """All plans, the newest last."""
        return [] if self._step is None else self._step.plans

    @property
    def plan(self) -> Plan | None:
        """The plan for the shapes that need the most memory; None before the first batch."""
        return max(self.plans, key=lambda plan: plan.before.safe_bytes, default=None)

    def undo(self) -> None:
        """Let the model train as before."""
        del self.model.make_train_function
        self.model.train_function = None

    def _make_train_function(self, force: bool = False) -> Callable[..., Any]:
        model = self.model
        if model.train_function is None or force:
            self._step = Function(
                _one_step(model, model.train_step),
                self.budget_bytes,
                progress=self._progress,
                describe=lambda concrete: collect_metadata(concrete, model, models.owners_of(model)),
                label=model.name,
                choose=self._choose,
                autograph=False,
                reduce_retracing=False,
                jit_compile=model.jit_compile,
            )
            model.train_function = _over_batches(model, model._autoconvert_optionals(self._step))
        return model.train_function

    def _choose(self, step: Step, trace: Callable[[Callable[..., Any]], Step]) -> Plan:
        """Plan the plain step, or the first of its variants that fits."""
        model = self.model

        def build_step(variant: Variant) -> Step:
            return step if variant.is_plain else trace(_one_step(model, variant.train_step))

        rows = step.batch_size
        variants = list(variants_of(model, self.allow, rows, self.only))
        more = allowable(model, self.allow)

        def plan_one_of(variants: list[Variant]) -> Plan:
            return plan_first(
                variants, build_step, rows, self.budget_bytes, more, self._progress, model.name, self._times
            )

        preferred = [variant for variant in variants if variant.pieces == self.pieces.get(rows)]
        if preferred:
            with contextlib.suppress(NoPlanError):
                return plan_one_of(preferred)
        return plan_one_of(variants)


def _one_step(model: keras.Model, train_step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what Keras runs for one batch."""

    def one_step(data: Any) -> Any:
        strategy = model.distribute_strategy
        return reduce_per_replica(strategy.run(train_step, args=(data,)), strategy, reduction="auto")

    return one_step


def _over_batches(model: keras.Model, step: Callable[[Any], Any]) -> Callable[[Iterator[Any]], Any]:
    """Return a training function that draws batches one by one, because a plan depends on their shapes."""

    def train(iterator: Iterator[Any]) -> Any:
        results = None
        for _ in range(models.steps_per_call(model)):
            try:
                data = next(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                break
            results = step(data)
        if results is None:
            raise StopIteration
        return results

    return train
