"""The ways to run a program: plain, planned, or with recomputation as TensorFlow and Keras offer it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

import lowtide as lt
from benchmarks.fit.programs import Program, build, make_batch
from benchmarks.fit.programs.segments import recompute_at_blocks, recompute_by_square_root
from benchmarks.fit.suite import BLOCKS, ORDERED, PLANNED, RECOMPUTED, REMAT, ROOT, SCOPE, Case


@dataclass
class Trainee:
    """A program that runs one step when it is called, and returns its losses."""

    program: Program
    run: Callable[[], Any]
    find_plan: Callable[[], Any] = lambda: None
    """The plan, where there is one: `fit_in` plans when the first batch arrives."""

    def __call__(self) -> list[float]:
        results = self.run()
        return [float(value) for value in tf.nest.flatten(results)]

    @property
    def planned(self) -> dict[str, Any]:
        """What the plan says of itself; empty without one."""
        plan = self.find_plan()
        return {} if plan is None else describe(plan)


def prepare(
    case: Case,
    way: str,
    budget_bytes: int | None = None,
    batch_size: int | None = None,
    batches: int = 1,
    descent: bool = False,
) -> Trainee:
    """Build the program of a case anew, to train in this way on `batches` batches in turn."""
    program = build_in(case, way, batch_size, descent)
    made = [make_batch(program.specs, seed) for seed in range(batches)]
    if way not in (PLANNED, RECOMPUTED, ORDERED):
        return Trainee(program, _runner(program, None, made))
    if way == PLANNED and program.model is not None:
        fitted = lt.fit_in(program.model, budget=budget_bytes)
        return Trainee(program, _runner(program, None, made), lambda: fitted.plan)
    plan = make_plan(program, way, budget_bytes)
    return Trainee(program, _runner(program, plan.apply(), made), lambda: plan)


def build_in(case: Case, way: str, batch_size: int | None = None, descent: bool = False) -> Program:
    """The program of a case, with the peers' recomputation in its models."""
    if way == SCOPE:
        with keras.RematScope(mode="full"):
            return build(case, batch_size, descent)
    program = build(case, batch_size, descent)
    if way in (BLOCKS, REMAT):
        recompute_at_blocks(program.models, case.ends, keras.remat if way == REMAT else tf.recompute_grad)
    elif way == ROOT:
        recompute_by_square_root(program.models, tf.recompute_grad)
    return program


def make_plan(program: Program, way: str, budget_bytes: int | None) -> Any:
    """The plan for the program's batch: `ORDERED` changes the order alone, `RECOMPUTED` leaves the batch whole."""
    only = {ORDERED: "order", RECOMPUTED: "recompute"}.get(way)
    return lt.plan(program.step or program.model, *program.specs, budget=budget_bytes, only=only)


def describe(plan: Any) -> dict[str, Any]:
    """What the table needs of a plan."""
    again = [action.subject for action in plan.actions if action.kind == "recompute"]
    return {
        "budget_bytes": plan.budget_bytes,
        "promised_bytes": plan.peak_bytes,
        "before_bytes": plan.before.safe_bytes,
        "slowdown": plan.slowdown,
        "pieces": plan.pieces,
        "recomputed": len(again),
        "recomputed_twice": len(again) - len(set(again)),
        "ordered": plan.count("order"),
        "recomputed_us": sum(action.costs_us for action in plan.actions if action.kind == "recompute"),
    }


def _runner(program: Program, function: Callable[..., Any] | None, made: list[Any]) -> Callable[[], Any]:
    """One step on the next batch: as `fit` runs it, or as a loop of the program's own does."""
    if program.model is not None and function is None:
        step = _as_fit(program.model, made)
    else:
        called = function or tf.function(program.step)
        turns = itertools.cycle(made)

        def step() -> Any:
            return called(*next(turns))

    def run() -> Any:
        # Otherwise Keras reports the mean over all steps.
        if program.model is not None:
            program.model.reset_metrics()
        return step()

    return run


def _as_fit(model: keras.Model, made: list[Any]) -> Callable[[], Any]:
    # A dataset of one element hands out the same buffer each time, so a batch counts once.
    data = tf.data.Dataset.from_tensors(made[0])
    for batch in made[1:]:
        data = data.concatenate(tf.data.Dataset.from_tensors(batch))
    iterator = iter(data.repeat())
    model.make_train_function()
    return lambda: model.train_function(iterator)
