"""`lt.function`: a tf.function that keeps a memory budget."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.composite_tensor import CompositeTensor

from lowtide.errors import LowtideError
from lowtide.planning.allowance import check_allow
from lowtide.planning.measured_costs import MeasuredTimes, Recorded, measured_times
from lowtide.planning.plan import Plan
from lowtide.progress import ProgressCallback
from lowtide.tf.plan.arena import held_bytes
from lowtide.tf.plan.plan import plan_step
from lowtide.tf.trace.build_step import build_step
from lowtide.tf.trace.find_keras_objects import find_keras_objects
from lowtide.tf.trace.step import Step, StepMetadata, collect_metadata
from lowtide.tf.trace.trace import Trace
from lowtide.units import parse_bytes

Describe = Callable[[Any], StepMetadata]
# Plans a step, or another one in its place, which the second argument traces.
Choose = Callable[[Step, Callable[[Callable[..., Any]], Step]], Plan]


def function(
    python_function: Callable[..., Any] | None = None,
    *,
    budget: str | int,
    allow: Sequence[str] = (),
    recorded: Recorded | None = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> Any:
    """Like tf.function, but the step is rewritten so that it runs within `budget`.

    Each new set of shapes is traced and planned at its first call. Costs of ops come from a `recorded` step, if one is
    given. `options` are those of tf.function.
    """
    budget_bytes = parse_bytes(budget)
    if check_allow(allow):
        raise LowtideError(
            "only the step of a Keras model can be split or cast: of any other it is not known what a row is",
            given=f"allow={allow!r}",
            cure="use lt.fit_in(model, ...), or split and cast in the step itself",
        )
    planning: dict[str, Any] = {"progress": progress, "times": measured_times(recorded)}
    if python_function is None:
        return lambda each: Function(each, budget_bytes, **planning, **options)
    return Function(python_function, budget_bytes, **planning, **options)


class Function:
    """A callable with a plan for each set of argument shapes."""

    def __init__(
        self,
        python_function: Callable[..., Any],
        budget_bytes: int,
        *,
        progress: ProgressCallback | None = None,
        times: MeasuredTimes | None = None,
        describe: Describe | None = None,
        label: str | None = None,
        choose: Choose | None = None,
        **options: Any,
    ) -> None:
        self.python_function = python_function
        self.budget_bytes = budget_bytes
        self.plans: list[Plan] = []
        """All plans, the newest last."""
        self._progress = progress
        self._times = times
        self._describe = describe or self._describe_reachable
        self._options = options
        self._label = str(label or getattr(python_function, "__name__", "step"))
        self._choose = choose
        self._traced = tf.function(python_function, **options)
        self._steps: dict[Any, Callable[..., Any]] = {}
        self._bound: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()
        functools.update_wrapper(self, python_function, updated=())

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._step_for(arguments, named)(*arguments, **named)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Plan a method for each object separately, because objects have different variables."""
        if instance is None:
            return self
        if instance not in self._bound:
            method = self.python_function.__get__(instance, owner)
            planning: dict[str, Any] = {"progress": self._progress, "times": self._times}
            self._bound[instance] = Function(method, self.budget_bytes, **planning, **self._options)
        return self._bound[instance]

    @property
    def plan(self) -> Plan | None:
        """The plan for the shapes that need the most memory; None before the first call."""
        return max(self.plans, key=lambda plan: plan.before.safe_bytes, default=None)

    def get_concrete_function(self, *arguments: Any, **named: Any) -> Any:
        """Return the planned step for one set of specs, like tf.function."""
        step = self._step_for(arguments, named)
        return step.get_concrete_function(*arguments, **named)  # type: ignore[attr-defined]

    def _step_for(self, arguments: Any, named: Any) -> Callable[..., Any]:
        """Return the planned step for the shapes of these arguments."""
        specs, named_specs = tf.nest.map_structure(_spec, (arguments, named))
        key = tuple(map(_key, tf.nest.flatten((specs, named_specs), expand_composites=True)))
        if key not in self._steps:
            leaves = [leaf for leaf in tf.nest.flatten((specs, named_specs), expand_composites=True) if _is_spec(leaf)]
            shapes = [_whole_shape(leaf) for leaf in leaves]

            def trace(function: Any) -> Step:
                traced = Trace(function.get_concrete_function(*specs, **named_specs), 0.0, None)
                metadata = self._describe(traced.concrete)
                if tf.executing_eagerly():
                    # The plan will run in this process, whose limit has to hold everything that is in it.
                    held = held_bytes(traced.concrete.graph.variables, self.budget_bytes)
                    metadata = dataclasses.replace(metadata, held_bytes=held)
                return build_step(traced, metadata, self._label, shapes, self._progress)

            made = self._plan(trace)
            self.plans.append(made)
            self._steps[key] = self._traced if made.changes_nothing else made.apply()
        return self._steps[key]

    def _plan(self, trace: Callable[[Any], Step]) -> Plan:
        step = trace(self._traced)
        if self._choose is None:
            return plan_step(step, step.batch_size, self.budget_bytes, self._progress, self._label, self._times)
        return self._choose(step, lambda function: trace(tf.function(function, **self._options)))

    def _describe_reachable(self, concrete: Any) -> StepMetadata:
        return collect_metadata(concrete, None, find_keras_objects(self.python_function))


def _spec(value: Any) -> Any:
    if isinstance(value, (tf.Tensor, np.ndarray)):
        return tf.TensorSpec(value.shape, value.dtype)
    if isinstance(value, keras.Variable):
        return value.value
    # A composite tensor, for example what a strategy passes to its replicas, has several tensors.
    several = isinstance(value, CompositeTensor) and not isinstance(value, tf.Variable)
    return tf.type_spec_from_value(value) if several else value


def _is_spec(leaf: Any) -> bool:
    return isinstance(leaf, tf.TensorSpec)


def _key(leaf: Any) -> Any:
    try:
        hash(leaf)
    except TypeError:
        return id(leaf)
    return type(leaf), leaf


def _whole_shape(spec: tf.TensorSpec) -> tuple[int, ...]:
    if not spec.shape.is_fully_defined():
        raise LowtideError(
            "a plan is made for whole shapes, and an argument has an unknown dimension",
            given=str(spec.shape),
            cure="call the planned step from Python, with tensors, or give every dimension",
        )
    return tuple(spec.shape)
