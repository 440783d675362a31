"""Watches memory over many steps, and finds what grows.

A watch compares two numbers in each step, and from time to time it reads the memory in use. Only if that grows, and at
the end, it searches for the cause, which takes tenths of a second.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from typing import Any, Self

import keras
from tensorflow.python.framework import ops

from lowtide.errors import LowtideError
from lowtide.tf.hooks import Listener, add_listener, remove_listener
from lowtide.tf.memory_meter import MemoryMeter
from lowtide.tf.watch.data_buffers import fillable_bytes
from lowtide.tf.watch.finding import Finding, FindingKey
from lowtide.tf.watch.kept_objects import (
    TensorAges,
    array_findings,
    growing_tensor,
    kept_findings,
    largest_by_holder,
    model_findings,
    note_registered,
)
from lowtide.tf.watch.release import entry_names
from lowtide.tf.watch.report import show
from lowtide.tf.watch.retracing import TraceMonitor
from lowtide.tf.watch.session_graphs import SessionMonitor
from lowtide.tf.watch.xla_programs import XlaProgramMonitor
from lowtide.tide.growth import MemoryGrowth, find_growth
from lowtide.units import format_bytes

# The share of the program's time that readings may take, besides the calls of the hooks.
_MAX_SHARE = 0.004
_MAX_SAMPLES = 512
_FIRST_CHECK = 64
# A list that grows for fewer steps than this may be emptied after an epoch.
_LONG_RUN = 1024
# Smaller growth is noise: the allocator's figure is exact, that of the process is not.
_MIN_ALLOCATOR_BYTES = 1 << 20
_MIN_PROCESS_BYTES = 8 << 20
_MIN_UNEXPLAINED_BYTES = 24 << 20

_HOW = "write `with lt.Watch() as watch:` around the loop, or pass it to fit as a callback"


class Watch(keras.callbacks.Callback, Listener):
    """Finds memory that grows from step to step: a Keras callback, and a context manager for custom loops.

    A step is a call of a tf.function, a run of a session or a gradient of a tape; in a custom loop, call `step()` at
    the end of each. Memory is read at intervals that cost little, or every `every` steps. The results are in `findings`
    and are printed to standard error unless `quiet`.
    """

    # The callback has no methods for single batches, so Keras need not wait for them.
    async_safe = True

    def __init__(self, every: int | None = None, quiet: bool = False) -> None:
        super().__init__()
        if every is not None and every < 1:
            raise LowtideError(
                "`every` is the number of steps between two readings of memory",
                given=every,
                cure="pass every=1 or more",
            )
        self.every = every
        self.quiet = quiet
        self.steps = 0
        self.notes: list[str] = []
        self._found: dict[FindingKey, Finding] = {}
        self._shown: set[FindingKey] = set()
        self._suspected: set[FindingKey] = set()
        self._watching: set[str] = set()
        self._by_hand = False
        self._meter: MemoryMeter | None = None
        self._searched_at: int | None = None
        self._thread = threading.get_ident()
        self._ends = 0

    # As a context manager, and as a callback of fit, evaluate and predict

    def __enter__(self) -> Self:
        self._begin("with")
        return self

    def __exit__(self, *_: object) -> None:
        self._end("with")

    def on_train_begin(self, logs: Any = None) -> None:
        self._begin("train")

    def on_train_end(self, logs: Any = None) -> None:
        self._end("train")

    def on_test_begin(self, logs: Any = None) -> None:
        self._begin("test")

    def on_test_end(self, logs: Any = None) -> None:
        self._end("test")

    def on_predict_begin(self, logs: Any = None) -> None:
        self._begin("predict")

    def on_predict_end(self, logs: Any = None) -> None:
        self._end("predict")

    def step(self) -> None:
        """Mark the end of a step of a custom loop; from the first call on, nothing else counts as a step."""
        if not self._watching:
            raise LowtideError("this watch is not watching", cure=_HOW)
        if not self._by_hand:
            self._by_hand = True
            self.steps = 0
            self._reset()
        self._tick()

    @property
    def findings(self) -> list[Finding]:
        """What grows, as known so far."""
        if self._meter is not None and self._searched_at != self.steps:
            self._find_causes()
        return list(self._found.values())

    def report(self) -> None:
        """Print the findings to standard error."""
        show(self.findings, self.steps, None if self._meter is None else self._meter.source, self.notes)

    @property
    def overhead(self) -> float:
        """The share of the watched time that was spent on reading memory."""
        if self._meter is None:
            return 0.0
        end = time.perf_counter() if self._watching else self._ended
        return self._spent / max(end - self._started, 1e-9)

    # Events of the hooks

    def on_call(self, function: Any, arguments: tuple, keywords: dict[str, Any]) -> None:
        self._traces.calls[function._name] += 1
        if function._jit_compile:
            self._programs.note_call(function, arguments, keywords)
        self._count()

    def on_trace(self, function_type: Any, options: Any) -> None:
        self._traces.note_trace(function_type, options)

    def on_gradient(self) -> None:
        self._count()

    def on_session(self, session: Any) -> None:
        self._graphs.note_session(session, self.steps)

    def on_run(self, session: Any) -> None:
        self._count()
        if self.steps == self._sampled_at:
            self._graphs.note_run(session, self.steps)

    # Implementation

    def _begin(self, name: str) -> None:
        if self._meter is None:
            self._meter = MemoryMeter()
            self._started = time.perf_counter()
            self._traces, self._graphs, self._programs = TraceMonitor(), SessionMonitor(), XlaProgramMonitor()
            self._spent = 0.0
            self._next_check = _FIRST_CHECK
            self._reset()
        if not self._watching:
            self._thread = threading.get_ident()
            self._registered = entry_names()
            add_listener(self)
        self._watching.add(name)

    def _end(self, name: str) -> None:
        self._watching.discard(name)
        if self._watching:
            return
        remove_listener(self)
        self._ended = time.perf_counter()
        note_registered(self._registered)
        self._ends += 1
        # A watch that is passed to many fits searches for causes after the first, second, fourth, eighth ...
        if self._ends & (self._ends - 1) == 0 or self._grows() is not None:
            self._find_causes()
            self._show(last=self._ends == 1)

    def _reset(self) -> None:
        self._allocator: list[tuple[int, int]] = []
        self._process: list[tuple[int, int]] = []
        self._ages = TensorAges(ops.uid())
        self._largest: tuple[int, dict[str, int]] | None = None
        self._next = self._sampled_at = 0
        self._sampled = self._maps_read = time.perf_counter()
        self._maps_cost = 0.0

    def _count(self) -> None:
        if not self._by_hand and threading.get_ident() == self._thread:
            self._tick()

    def _tick(self) -> None:
        self.steps += 1
        if self.steps >= self._next:
            self._sample()

    def _sample(self) -> None:
        assert self._meter is not None
        start = time.perf_counter()
        reading, step = self._meter.read(), self.steps
        if reading.allocator_bytes is not None:
            self._allocator.append((step, reading.allocator_bytes))
        if reading.process_bytes is not None:
            self._process.append((step, reading.process_bytes))
        self._ages.note(ops.uid(), step)
        if self._traces.compiles and (self.every or start - self._maps_read > self._maps_cost / _MAX_SHARE):
            began = time.perf_counter()
            self._programs.sample(step)
            self._maps_read = time.perf_counter()
            self._maps_cost = self._maps_read - began
        if len(self._process) > _MAX_SAMPLES:
            del self._process[::2], self._allocator[::2]
        end = time.perf_counter()
        self._next = step + (self.every or self._pause(start, end))
        self._sampled_at, self._sampled = step, end
        self._spent += end - start
        if step >= self._next_check:
            self._next_check = 2 * step
            self._check()

    def _pause(self, start: float, end: float) -> int:
        """The number of steps after which the next reading costs little enough, if steps take as long as recently."""
        waited = self.steps - self._sampled_at
        step_time = (start - self._sampled) / max(waited, 1)
        pause = math.ceil((end - start) / max(_MAX_SHARE * step_time, 1e-9))
        # One step may be short by chance; and when many readings are kept, the interval does not shrink.
        return max(min(pause, 2 * waited), waited if len(self._process) > _MAX_SAMPLES // 2 else 1)

    def _check(self) -> None:
        """Update the cheap findings, and search for causes if memory has been growing for long."""
        if self._grows() is not None:
            if self.steps >= _LONG_RUN:
                self._find_causes()
            elif self._largest is None:
                self._largest = (self.steps, largest_by_holder())
        # A few shapes may all occur in the first steps: only findings that persist until the next check are shown.
        seen = _by_key(self._cheap_findings())
        self._found |= {key: finding for key, finding in seen.items() if key in self._suspected}
        self._suspected = set(seen)
        self._show(last=False)

    def _grows(self) -> MemoryGrowth | None:
        tensors = find_growth(self._allocator, _MIN_ALLOCATOR_BYTES)
        return tensors or find_growth(self._process, _MIN_PROCESS_BYTES)

    def _cheap_findings(self) -> list[Finding]:
        per_step = _rate(self._process)
        traced = {traced.name: len(traced.calls_at) for traced in self._traces.by_code.values()}
        found = self._traces.findings(self.steps, per_step) + self._graphs.findings(per_step)
        return found + self._programs.findings(traced, per_step)

    def _find_causes(self) -> None:
        """Search for all causes, including the expensive searches."""
        self._searched_at = self.steps
        gc.collect()
        self._ages.close(ops.uid(), self.steps)
        if self._watching:
            note_registered(self._registered)
        try:
            found = self._cheap_findings() + kept_findings(self._ages, self.steps) + model_findings(self.steps)
            self._found = _by_key(found or self._other_growth())
        except Exception as problem:
            # The search visits all objects of the program, and an error there must not end a training.
            self.notes = [f"the search for causes failed: {type(problem).__name__}: {problem}"]

    def _other_growth(self) -> list[Finding]:
        """Findings for growth that has none of the usual causes."""
        growth = self._grows()
        if growth is None:
            return []
        if growth.bytes <= 2 * fillable_bytes():
            self.notes = [f"memory grew by {format_bytes(growth.bytes)}: a shuffle buffer or a cache is being filled"]
            return []
        per_step, steps = round(growth.bytes_per_step), growth.last_step - growth.first_step
        found = array_findings(per_step, steps)
        if not found and self._largest is not None:
            found = growing_tensor(self._largest[1], per_step, self.steps - self._largest[0])
        self._largest = self._largest or (self.steps, largest_by_holder())
        exact = find_growth(self._allocator, _MIN_ALLOCATOR_BYTES) is not None
        if found or (not exact and growth.bytes < _MIN_UNEXPLAINED_BYTES):
            return found
        what = f"memory grew by {format_bytes(growth.bytes)} from step {growth.first_step} to step {growth.last_step}"
        fix = "unknown; watch a shorter part of the program with `with lt.Watch():` to find it"
        return [Finding("unexplained growth", what, "unknown", None, per_step, fix)]

    def _show(self, *, last: bool) -> None:
        new = [finding for key, finding in self._found.items() if key not in self._shown]
        if self._meter is not None and not self.quiet and (new or (last and not self._shown)):
            show(new, self.steps, self._meter.source, self.notes)
        self._shown |= self._found.keys()


def _by_key(findings: list[Finding]) -> dict[FindingKey, Finding]:
    return {finding.key: finding for finding in findings}


def _rate(samples: list[tuple[int, int]]) -> int | None:
    """The growth of the process per step, if something grows; None if the rest of it shrinks more."""
    growth = find_growth(samples)
    if growth is not None:
        return round(growth.bytes_per_step)
    later = samples[len(samples) // 5 :]
    if len(later) < 2 or later[-1][1] <= later[0][1]:
        return None
    return round((later[-1][1] - later[0][1]) / (later[-1][0] - later[0][0]))
