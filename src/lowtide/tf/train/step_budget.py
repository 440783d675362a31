"""Predicts the step of a training before it runs, and lets it be planned if it does not fit."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from lowtide.planning.allowance import MICROBATCH
from lowtide.planning.plan import Plan
from lowtide.run.machine import group_bytes, machine_bytes, resident_bytes
from lowtide.run.train.history import Planned
from lowtide.tf.plan.fit_in import Fitted, fit_in
from lowtide.tf.record.device import bytes_in_use
from lowtide.tf.trace.predict import predict
from lowtide.tf.train.data.training_data import TrainingData
from lowtide.tf.train.session import RunSession
from lowtide.tide.tide import Tide

# Models whose steps are planned, over several calls of `fit`.
_fitted: weakref.WeakKeyDictionary[Any, Fitted] = weakref.WeakKeyDictionary()
# The shapes of batches for which the step of a model fits.
_fitting: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


class StepBudget:
    """The memory that one `fit` may take for its steps: that of the attempt, or what the machine has free."""

    def __init__(self, session: RunSession, model: keras.Model, data: TrainingData, training: int) -> None:
        self.session = session
        self.training = training
        self.model = model
        self._fitted = _fitted.get(model)
        # Earlier calls of `fit` have reported these.
        self._reported = [] if self._fitted is None else [*self._fitted.plans]
        self.can_plan = not model.run_eagerly and (model in _fitted or "make_train_function" not in vars(model))
        """Whether the steps can be planned: not if they have no graph, or the script has done that itself."""
        if self.can_plan and self._fitted is None:
            self._prepare(data)
        if self._fitted is not None:
            self._fitted.pieces = session.planned_pieces(training)

    def report(self) -> None:
        """Add plans to the history that were made since the last call."""
        fitted = self._fitted
        if fitted is None:
            return
        # A model that was compiled again begins with no plans.
        new = [plan for plan in fitted.plans if not any(plan is each for each in self._reported)]
        for plan in new:
            self._report_plan(plan)
        self._reported = [*self._reported, *new]

    def _report_plan(self, plan: Plan) -> None:
        folder = self.session.directory.plans
        folder.mkdir(exist_ok=True)
        self.session.plans += 1
        # What other budgets would cost takes another search.
        replace(plan, frontier=()).save(folder / f"attempt-{self.session.attempt}-{self.session.plans}.plan")
        self.session.add(
            Planned(
                attempt=self.session.attempt,
                predicted_bytes=plan.before.safe_bytes,
                budget_bytes=plan.budget_bytes,
                planned_bytes=None if plan.changes_nothing else plan.peak_bytes,
                slowdown=1.0 + plan.slowdown,
                pieces=plan.pieces,
                training=self.training,
                batch_size=plan.batch_size,
                notes=plan.notes,
            )
        )

    def _prepare(self, data: TrainingData) -> None:
        settings = self.session.settings
        given = settings.budget_bytes
        budget = _free_bytes() if given is None else given
        shapes = repr((data.element_spec, data.batch_size))
        known = _fitting.setdefault(self.model, set())
        if budget is None or shapes in known:
            return
        tide = self._predict(data)
        if tide is None and given is None:
            return
        # Predictions of one step differ a little between processes, and micro-batches round in another way.
        was_split = any(pieces > 1 for pieces in self.session.planned_pieces(self.training).values())
        if tide is not None and tide.safe_bytes <= budget and not was_split:
            known.add(shapes)
            self._report_fit(tide, budget)
            return
        allow = dict.fromkeys([*settings.allow, *([MICROBATCH] if settings.splits else [])])
        self._fitted = _fitted[self.model] = fit_in(self.model, budget, allow=tuple(allow))

    def _predict(self, data: TrainingData) -> Tide | None:
        spec = data.element_spec
        try:
            return predict(self.model, *(spec if isinstance(spec, tuple) else (spec,)), batch_size=data.batch_size)
        except Exception:
            # Whatever is wrong, the training itself says so. It is planned at its first batch, or runs as it is.
            return None

    def _report_fit(self, tide: Tide, budget: int) -> None:
        folder = self.session.directory.tides
        folder.mkdir(exist_ok=True)
        tide.save(folder / f"attempt-{self.session.attempt}-{len(list(folder.iterdir())) + 1}.tide")
        self.session.add(
            Planned(
                attempt=self.session.attempt, predicted_bytes=tide.safe_bytes, budget_bytes=budget,
                training=self.training, batch_size=tide.batch_size,
            )
        )  # fmt: skip


def _free_bytes() -> int | None:
    """Return what this machine, or the container, has left for steps; None if they run on a GPU."""
    if tf.config.list_physical_devices("GPU"):
        return None
    limits = [limit for limit in (machine_bytes(), group_bytes()) if limit is not None]
    # The allocator's bytes count as the step's own.
    return min(limits) - (resident_bytes() or 0) + bytes_in_use()
