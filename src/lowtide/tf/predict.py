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
from lowtide.tf.rescale import SMALLEST_TELLING_BATCH
from lowtide.tf.sources import source_finder
from lowtide.tf.trace import Program, Progress, trace
from lowtide.tide.describe import Labels, describe
from lowtide.tide.simulate import Simulation, simulate
from lowtide.tide.tide import Building, Tide, Unmodelled
from lowtide.tide.workload import Workload, build_workload
from lowtide.units import parse_bytes


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
    step = find_step(target, specs, batch_size, progress)
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
    """The safe bound at that batch size, or at a batch of 1 when nothing fits."""
    traced: tuple[int, ...]
    """The batch sizes that were traced."""


# A batch this large is telling: no other size of the program is a multiple of it by accident.
FIRST_TRACED_BATCH = 16
LARGEST_TRACES = 4


def max_batch_size(
    target: Any, *specs: Any, budget: str | int, progress: Progress | None = None, largest: int = 1 << 20
) -> BatchAnswer:
    """The largest batch whose safe bound stays within the budget, found by solving, not by trying it out.

    The program is traced for one batch size and looked at with others; the answer is traced itself in the end.
    """
    budget_bytes = parse_bytes(budget)
    traced: dict[int, Step] = {}

    def step_at(batch_size: int) -> Step:
        if batch_size not in traced:
            traced[batch_size] = find_step(target, specs, batch_size, progress, exactly=True)
        return traced[batch_size]

    guess = FIRST_TRACED_BATCH
    while True:
        step = step_at(guess)
        bounds: dict[int, int] = {}

        def bound(batch_size: int, step: Step = step, bounds: dict[int, int] = bounds) -> int:
            if batch_size not in bounds:
                bounds[batch_size] = step.safe_bytes(batch_size)
            return bounds[batch_size]

        found = solve_batch(bound, budget_bytes, largest, guess)
        if found == guess or len(traced) >= LARGEST_TRACES or found == 0 or found in traced:
            break
        guess = found
    if found in traced or found == 0:
        safe = bound(max(found, 1))
    else:
        # The last trace and its rescaled neighbour disagree: take the traced one that is sure to fit.
        safe = bound(found)
    return BatchAnswer(found, budget_bytes, safe, tuple(sorted(traced)))


def solve_batch(bound: Callable[[int], int], budget: int, largest: int, first: int) -> int:
    """The largest batch within the budget: memory grows almost linearly, so lines through known sizes close in fast."""
    low, high = 0, largest + 1
    guess = min(first, largest)
    known: dict[int, int] = {}
    while high - low > 1:
        known[guess] = bound(guess)
        if known[guess] <= budget:
            low = guess
        else:
            high = guess
        guess = _next_guess(known, budget, low, high)
    return low


def _next_guess(known: dict[int, int], budget: int, low: int, high: int) -> int:
    if len(known) == 1:
        only = next(iter(known))
        return min(max(only // 2 if known[only] > budget else only * 2, low + 1), high - 1)
    left, right = sorted(sorted(known, key=lambda size: abs(known[size] - budget))[:2])
    slope = max((known[right] - known[left]) / (right - left), 1.0)
    guess = math.floor(left + (budget - known[left]) / slope)
    return min(max(guess, low + 1), high - 1)


def _check_batch_size(batch_size: Any) -> None:
    if batch_size is None:
        return
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise LowtideError("a batch size is a whole number of at least 1", given=repr(batch_size), cure="try 32")


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


_KNOWN: weakref.WeakKeyDictionary[Any, tuple[Any, dict[int | None, Step]]] = weakref.WeakKeyDictionary()


def find_step(
    target: Any, specs: tuple[Any, ...], batch_size: int | None, progress: Progress | None, exactly: bool = False
) -> Step:
    """The traced step of a target: one that is known already, also of another batch size unless asked `exactly`."""
    if not isinstance(target, keras.Model) and not callable(target):
        raise LowtideError(
            "only a compiled Keras model or a function can be predicted",
            given=type(target).__name__,
            cure="pass a model, or a step function followed by a tf.TensorSpec for each of its inputs",
        )
    fingerprint, candidates = _candidates(target, specs, batch_size)
    stored, steps = _KNOWN.get(target, (None, {}))
    if stored != fingerprint:
        steps = {}
    if batch_size in steps:
        steps[batch_size].seconds = {}
        return steps[batch_size]
    telling = [size for size in steps if size is not None and size >= SMALLEST_TELLING_BATCH]
    if telling and batch_size is not None and not exactly:
        nearest = steps[min(telling, key=lambda size: abs(math.log(size / batch_size)))]
        nearest.seconds = {}
        return nearest
    step = _trace_first(target, candidates, progress)
    # Tracing builds what was not built yet, which changes the fingerprint.
    fingerprint, _ = _candidates(target, specs, batch_size)
    steps[batch_size] = step
    _KNOWN[target] = (fingerprint, steps)
    return step


def _candidates(target: Any, specs: tuple[Any, ...], batch_size: int | None) -> tuple[Any, list[tuple[Any, ...]]]:
    """What a trace depends on besides the batch size, and the specs to try, with the batch filled in."""
    if isinstance(target, keras.Model):
        candidates = models.candidate_specs(target, specs)
        fingerprint = models.fingerprint(target, specs)
    else:
        signature = getattr(target, "input_signature", None)
        candidates = [specs or tuple(signature or ())]
        fingerprint = repr(_open_batch(candidates[0]))
    return fingerprint, [_with_batch(candidate, batch_size) for candidate in candidates]


def _leaves(specs: Any) -> list[Any]:
    return [spec for spec in tf.nest.flatten(list(specs)) if getattr(spec, "shape", None) is not None]


def _open_batch(specs: tuple[Any, ...]) -> list[Any]:
    return [(None if spec.shape.rank else (), tuple(spec.shape)[1:], spec.dtype.name) for spec in _leaves(specs)]


def _with_batch(specs: tuple[Any, ...], batch_size: int | None) -> tuple[Any, ...]:
    """The specs with every leading dimension set to the batch, where one is asked for."""
    opened = any(spec.shape.rank and spec.shape[0] is None for spec in _leaves(specs))
    common = {spec.shape[0] for spec in _leaves(specs) if spec.shape.rank}

    def fill(spec: Any) -> Any:
        if not getattr(spec, "shape", None) or not spec.shape.rank:
            return spec
        leading = spec.shape[0]
        replaced = batch_size is not None and (leading is None or (not opened and len(common) == 1))
        shape = (batch_size if replaced else leading, *spec.shape[1:])
        if None in shape:
            cure = "pass batch_size=" if None not in shape[1:] else "give every dimension but the first a size"
            raise LowtideError("an input has an unknown dimension", given=tuple(spec.shape), cure=cure)
        return tf.TensorSpec(shape, spec.dtype, name=spec.name)

    return tuple(tf.nest.map_structure(fill, list(specs)))


def _trace_first(target: Any, candidates: list[tuple[Any, ...]], progress: Progress | None) -> Step:
    """Trace with the first specs that the target accepts; the first error is the one to tell."""
    if not isinstance(target, keras.Model):
        return Step(trace(target, candidates[0], progress), None, getattr(target, "__name__", type(target).__name__))
    first_error: LowtideError | None = None
    for candidate in candidates:
        try:
            models.prepare(target, candidate)
            function = tf.function(models.train_step_of(target), autograph=False, jit_compile=bool(target.jit_compile))
            return Step(trace(function, candidate, progress), target, target.name)
        except LowtideError as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


class Step:
    """A traced step, ready to be looked at with any batch size."""

    def __init__(self, program: Program, model: keras.Model | None, label: str) -> None:
        self.program = program
        self.label = label
        self.layers = frozenset(layer.name for layer in model._flatten_layers()) if model is not None else frozenset()
        self.kinds = models.variable_kinds(model, program.concrete.graph.variables)
        self.extra = _variables_outside(program, model)
        self.seconds = dict(program.seconds)

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
            batch_size=batch_size if batch_size is not None else self.program.batch_size,
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
