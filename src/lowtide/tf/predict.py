"""Predict: how much memory a training step takes, before it runs."""

from __future__ import annotations

import gc
import math
import time
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.graph.dtypes import element_bytes
from lowtide.tf import models
from lowtide.tf.sources import source_finder
from lowtide.tf.trace import Program, Progress, trace
from lowtide.tide.describe import Labels, describe
from lowtide.tide.simulate import Simulation, simulate
from lowtide.tide.tide import Building, Tide, Unmodelled
from lowtide.tide.workload import Workload, build_workload
from lowtide.units import format_bytes, parse_bytes


def predict(
    target: Any,
    *specs: Any,
    batch_size: int | None = None,
    progress: Progress | None = None,
    timings: dict[str, float] | None = None,
    label: str | None = None,
) -> Tide:
    """The tide of one training step of a compiled Keras model, or of a step function with the specs of its inputs."""
    _check_batch_size(batch_size)
    step = _Step.of(target, specs, batch_size, progress)
    tide = step.tide(batch_size, progress, label)
    if timings is not None:
        timings.update(step.seconds)
    return tide


@dataclass(frozen=True)
class BatchAnswer:
    """The largest batch that is sure to fit a budget; 0 when not even one example does."""

    batch_size: int
    budget_bytes: int
    safe_bytes: int
    traced: tuple[int, ...]
    """The batch sizes that were looked at."""


def max_batch_size(
    target: Any, *specs: Any, budget: str | int, progress: Progress | None = None, largest: int = 1 << 20
) -> BatchAnswer:
    """The largest batch whose safe bound stays within the budget, found by solving, not by trying it out."""
    budget_bytes = parse_bytes(budget)
    bounds: dict[int, int] = {}
    step_at = _step_finder(target, specs, progress)

    def bound(batch_size: int) -> int:
        if batch_size not in bounds:
            bounds[batch_size] = step_at(batch_size).safe_bytes(batch_size)
        return bounds[batch_size]

    found = _solve(bound, budget_bytes, largest)
    safe = bound(found) if found else bound(1)
    return BatchAnswer(found, budget_bytes, safe, tuple(sorted(bounds)))


def _solve(bound: Callable[[int], int], budget: int, largest: int) -> int:
    """Memory grows almost linearly with the batch: follow the line through two sizes, then close in."""
    low, high = 0, None
    guess = 1
    while high is None or high - low > 1:
        if bound(guess) <= budget:
            low = guess
            if low >= largest:
                return largest
        else:
            high = guess
        if high == 1:
            return 0
        guess = _next_guess(bound, budget, low, high, largest)
    return low


def _next_guess(bound: Callable[[int], int], budget: int, low: int, high: int | None, largest: int) -> int:
    if high is None and low < 8:
        return min(low * 8, largest)
    left = max(low // 8, 1) if high is None else max(low, 1)
    right = low if high is None else high
    if right == left:
        right = left + 1
    slope = max((bound(right) - bound(left)) / (right - left), 1e-9)
    guess = math.floor(left + (budget - bound(left)) / slope)
    upper = min(largest, low * 64) if high is None else high - 1
    return min(max(guess, low + 1), upper)


def _check_batch_size(batch_size: Any) -> None:
    if batch_size is None:
        return
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise LowtideError("a batch size is a whole number of at least 1", given=repr(batch_size), cure="try 32")


def _step_finder(target: Any, specs: tuple[Any, ...], progress: Progress | None) -> Callable[[int], _Step]:
    """The step for a batch size: one program where the batch is open, another for each size where it is not."""
    if isinstance(target, keras.Model) or _is_open(specs):
        step = _Step.of(target, specs, 1, progress)
        return lambda batch_size: step
    batches = {spec.shape[0] for spec in tf.nest.flatten(list(specs)) if spec.shape.rank}
    if len(batches) != 1:
        raise LowtideError(
            "the inputs have no common first dimension to vary",
            given=", ".join(str(tuple(spec.shape)) for spec in tf.nest.flatten(list(specs))),
            cure="give the batch dimension of every input as None",
        )

    def find(batch_size: int) -> _Step:
        resized = tf.nest.map_structure(
            lambda spec: tf.TensorSpec((batch_size, *spec.shape[1:]), spec.dtype) if spec.shape.rank else spec, list(specs)
        )
        return _Step.of(target, tuple(resized), None, progress)

    return find


def _is_open(specs: tuple[Any, ...]) -> bool:
    return any(spec.shape.rank and spec.shape[0] is None for spec in tf.nest.flatten(list(specs)))


@contextmanager
def _without_garbage_collection() -> Any:
    """A simulation makes millions of small objects and no cycles; the collector would walk them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_KNOWN_MODELS: weakref.WeakKeyDictionary[Any, tuple[Any, _Step]] = weakref.WeakKeyDictionary()


class _Step:
    """A traced step, ready to be looked at with any batch size."""

    def __init__(self, program: Program, model: keras.Model | None, label: str) -> None:
        self.program = program
        self.label = label
        self.layers = frozenset(layer.name for layer in model._flatten_layers()) if model is not None else frozenset()
        self.kinds = models.variable_kinds(model, program.concrete.graph.variables)
        self.extra = _variables_outside(program, model)
        self.seconds = dict(program.seconds)

    @classmethod
    def of(cls, target: Any, specs: tuple[Any, ...], batch_size: int | None, progress: Progress | None) -> _Step:
        if isinstance(target, keras.Model):
            return cls._of_model(target, specs, batch_size, progress)
        if not callable(target):
            raise LowtideError(
                "only a compiled Keras model or a function can be predicted",
                given=type(target).__name__,
                cure="pass a model, or a step function followed by a tf.TensorSpec for each of its inputs",
            )
        if not specs and getattr(target, "input_signature", None):
            specs = tuple(target.input_signature)
        if _is_open(specs) and batch_size is None:
            shape = next(tuple(spec.shape) for spec in tf.nest.flatten(list(specs)) if spec.shape.rank and spec.shape[0] is None)
            raise LowtideError("an input has an unknown dimension", given=shape, cure="pass batch_size=")
        return cls(trace(target, specs, progress), None, getattr(target, "__name__", type(target).__name__))

    @classmethod
    def _of_model(cls, model: keras.Model, specs: tuple[Any, ...], batch_size: int | None, progress: Progress | None) -> _Step:
        function, candidates = models.train_step_of(model, specs)
        if batch_size is None and any(_is_open(candidate) for candidate in candidates):
            raise LowtideError("the batch size is not known", given=model.name, cure="pass batch_size=")
        fingerprint = _fingerprint(model, specs)
        known = _KNOWN_MODELS.get(model)
        if known is not None and known[0] == fingerprint:
            known[1].seconds = {}
            return known[1]
        first_error: LowtideError | None = None
        for candidate in candidates:
            try:
                models.prepare(model, candidate)
                step = cls(trace(tf.function(function, autograph=False), candidate, progress), model, model.name)
            except LowtideError as error:
                first_error = first_error or error
                continue
            _KNOWN_MODELS[model] = (_fingerprint(model, specs), step)
            return step
        assert first_error is not None
        raise first_error

    def tide(self, batch_size: int | None, progress: Progress | None, label: str | None) -> Tide:
        tell = progress or (lambda text: None)
        with _without_garbage_collection():
            work, simulation = self._simulate(batch_size, tell)
            started = time.perf_counter()
            buffers, curve = describe(work, simulation, self._labels())
            self.seconds["explain"] = time.perf_counter() - started
        return Tide(
            target=label or self.label,
            method="simulated",
            batch_size=batch_size if self.program.has_open_batch else _common_batch(self.program),
            peak_bytes=simulation.peak_bytes,
            safe_bytes=simulation.safe_bytes,
            buffers=buffers,
            curve=curve,
            building=Building(
                self.program.traced_nodes, len(self.program.graph), self.program.graph_bytes, self.program.host_bytes
            ),
            unmodelled=_unmodelled(work),
            notes=_notes(work, simulation),
        )

    def safe_bytes(self, batch_size: int) -> int:
        with _without_garbage_collection():
            return self._simulate(batch_size, lambda text: None)[1].safe_bytes

    def _simulate(self, batch_size: int | None, tell: Progress) -> tuple[Workload, Simulation]:
        started = time.perf_counter()
        tell("inferring shapes")
        graph = self.program.at(batch_size)
        inferred = time.perf_counter()
        tell("simulating")
        work = build_workload(graph)
        built = time.perf_counter()
        simulation = simulate(work, [math.prod(shape) * element_bytes(dtype) for _, _, dtype, shape in self.extra])
        self.seconds |= {
            "shapes": inferred - started,
            "workload": built - inferred,
            "simulate": time.perf_counter() - built,
        }
        return work, simulation

    def _labels(self) -> Labels:
        program = self.program
        captured = program.concrete.captured_inputs
        by_position = {
            program.input_count + position: self.kinds[id(handle)]
            for position, handle in enumerate(captured)
            if id(handle) in self.kinds
        }
        graph = program.graph
        by_tensor = {}
        for node, op in enumerate(graph.ops):
            if op in ("_Arg", "_DeviceArg"):
                index = graph.attributes[node].get("index")
                if index in by_position:
                    by_tensor[graph.first_output[node]] = by_position[index]
        return Labels(by_tensor, self.layers, source_finder(program.concrete), tuple(self.extra))


def _fingerprint(model: keras.Model, specs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a trace of a model depends on: when any of it changes, it is traced again."""
    return (
        repr(specs),
        id(model.optimizer),
        id(model.loss),
        len(model.variables),
        tuple(id(variable) for variable in model.trainable_variables),
        model.jit_compile,
    )


def _variables_outside(program: Program, model: keras.Model | None) -> list[tuple[str, str, int, tuple[int, ...]]]:
    """Variables of the model that the step does not touch still take their memory."""
    if model is None:
        return []
    captured = {id(handle) for handle in program.concrete.captured_inputs}
    found = []
    groups = [("weights", model.variables), ("other", model.metrics_variables)]
    if model.optimizer is not None:
        groups.append(("optimizer", model.optimizer.variables))
    seen: set[int] = set()
    for kind, variables in groups:
        for variable in variables:
            value = variable.value
            if id(value.handle) not in captured and id(value) not in seen:
                seen.add(id(value))
                found.append((kind, variable.path, value.dtype.as_datatype_enum, tuple(value.shape)))
    return found


def _common_batch(program: Program) -> int | None:
    sizes = {shape[0] for shape in program.argument_shapes[: program.input_count] if shape}
    return sizes.pop() if len(sizes) == 1 else None


def _unmodelled(work: Workload) -> tuple[Unmodelled, ...]:
    rows = [
        Unmodelled(op, len(nodes), sum(work.sizes[tensor] for node in nodes for tensor in work.outputs[node]))
        for op, nodes in work.unknown.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.bytes))


def _notes(work: Workload, simulation: Simulation) -> tuple[str, ...]:
    notes = []
    if work.unsized:
        producers = work.graph.producers()
        ops = sorted({work.graph.ops[producers[tensor]] for tensor in work.unsized})
        notes.append(f"{len(work.unsized)} tensors have a size that depends on the data ({', '.join(ops[:5])})")
    if simulation.schedule.guesses:
        notes.append(f"{len(simulation.schedule.guesses)} branches or loop ends depend on the data; the larger case is shown")
    return tuple(notes)


__all__ = ["BatchAnswer", "format_bytes", "max_batch_size", "predict"]
