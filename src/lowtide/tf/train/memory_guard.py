"""Sees memory that grows while a training runs, and says when it is about to run out."""

from __future__ import annotations

import math
import time

from lowtide.run.machine import group_bytes, machine_bytes
from lowtide.tf.memory_meter import MemoryMeter
from lowtide.tf.record.device import limit_bytes
from lowtide.tf.watch.watch import Watch
from lowtide.tide.growth import MemoryGrowth, find_growth
from lowtide.units import format_bytes

_MOST_SAMPLES = 512
# The share of the time that readings may take, and the most steps between two of them.
_SHARE, _MOST_BETWEEN = 0.005, 64
# Readings between two looks for growth.
_LOOK_EVERY = 32
# Smaller growth is noise: the allocator's figure is exact, that of the process is not.
_LEAST_DEVICE_BYTES, _LEAST_HOST_BYTES = 1 << 20, 32 << 20
# Memory is about to run out when it would last for fewer steps than this, or when less than this share is left.
_LAST_STEPS, _LAST_SHARE = 16, 0.05
# Another process starts without what has grown in this one; that must be worth a restart.
_WORTH_SHARE = 0.25


class MemoryGuard:
    """The memory of a training, step by step: on the device, and of the process on the host."""

    def __init__(self) -> None:
        limits = [machine_bytes(), group_bytes()]
        self._limits = {"the device": limit_bytes(), "the host": min(limit for limit in limits if limit is not None)}
        self._least = {"the device": _LEAST_DEVICE_BYTES, "the host": _LEAST_HOST_BYTES}
        self._samples: dict[str, list[tuple[int, int]]] = {place: [] for place in self._limits}
        self._growth: dict[str, MemoryGrowth | None] = dict.fromkeys(self._limits)
        self._first: dict[str, int] = {}
        self._steps = 0
        self._readings = 0
        self._next, self._between = 0, 1
        self._began, self._spent = time.perf_counter(), 0.0
        self._meter = MemoryMeter()
        self._watch: Watch | None = None

    def after_step(self) -> str | None:
        """Return where memory is about to run out that a new process would have again, and what grows; else None."""
        self._steps += 1
        if self._watch is not None:
            self._watch.step()
        if self._steps < self._next:
            return None
        started = time.perf_counter()
        reading = self._meter.read()
        found = None
        for place, used in (("the device", reading.allocator_bytes), ("the host", reading.process_bytes)):
            limit = self._limits[place]
            if used is not None and limit is not None:
                self._samples[place].append((self._steps, used))
                self._first.setdefault(place, used)
                found = found or self._problem(place, used, limit)
        self._readings += 1
        if self._readings % _LOOK_EVERY == 0:
            self._look()
        self._wait(started)
        return found

    def _wait(self, started: float) -> None:
        """Choose the step of the next reading, so that readings take a small share of the time."""
        ended = time.perf_counter()
        self._spent += ended - started
        step_seconds = (ended - self._began) / self._steps
        due = self._spent / _SHARE / max(step_seconds, 1e-9)
        self._between = min(max(math.ceil(due) - self._steps, 1), _MOST_BETWEEN)
        self._next = self._steps + self._between

    def stop(self) -> None:
        """End the search for what grows."""
        if self._watch is not None:
            self._watch.__exit__(None, None, None)
            self._watch = None

    def _problem(self, place: str, used: int, limit: int) -> str | None:
        growth = self._growth[place]
        if growth is None or used - self._first[place] < _WORTH_SHARE * limit:
            return None
        steps = max(_LAST_STEPS, 2 * self._between)
        if used + max(steps * growth.bytes_per_step, _LAST_SHARE * limit) <= limit:
            return None
        findings = [] if self._watch is None else self._watch.findings
        causes = [f"{each.name}: {each.what}, by {each.who}" for each in findings]
        why = f" ({'; '.join(causes)})" if causes else ""
        return (
            f"memory on {place} grows by {format_bytes(round(growth.bytes_per_step))} in each step and has reached"
            f" {format_bytes(used)} of {format_bytes(limit)}{why}"
        )

    def _look(self) -> None:
        for place, samples in self._samples.items():
            self._growth[place] = find_growth(samples, self._least[place])
            if len(samples) > _MOST_SAMPLES:
                del samples[::2]
        if self._watch is None and any(growth is not None for growth in self._growth.values()):
            # What grows is only searched for once something does.
            self._watch = Watch(quiet=True)
            self._watch.__enter__()
