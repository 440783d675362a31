"""Simulate a step's memory: the executor's order of allocations, replayed in the allocator, step after step.

A step finds the allocator as the steps before it left it, and the executor's threads never interleave quite the
same way twice. So several steps are simulated, each with its own chance; the middle one of the steady steps is
the prediction, and all of them together, with the allocator's regions cut to a limit, give the safe bound.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from lowtide.graph.machine import current_machine
from lowtide.tide.bfc import BfcAllocator, OutOfMemory, Replay
from lowtide.tide.executor import execute
from lowtide.tide.holdings import Schedule
from lowtide.tide.workload import Workload

# The first steps find an allocator that has not settled yet.
WARM_UP_STEPS = 1
STEADY_STEPS = 3
# The search for the safe bound ends when it is this close.
SAFE_RESOLUTION = 0.004
# Beyond what the simulated steps show: threads interleave in more ways than are tried.
SAFE_MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a step does to the allocator, and how sure that is."""

    schedule: Schedule
    replay: Replay
    held_before: np.ndarray
    """Chunk sizes of the buffers that exist before the step, by buffer."""
    bytes_before: int
    peak_bytes: int
    safe_bytes: int
    peaks: tuple[int, ...]


class _Process:
    """One process that runs step after step: an allocator and where the lasting buffers lie in it."""

    def __init__(self, schedule: Schedule, extra: list[int], limit_bytes: int | None = None) -> None:
        self.allocator = BfcAllocator(limit_bytes)
        for size in extra:
            self.allocator.allocate(size)
        self.addresses = self.allocator.replay(schedule.sizes, schedule.before).addresses

    def step(self, schedule: Schedule) -> Replay:
        held: list[int | None] = [None] * len(schedule.sizes)
        for buffer in schedule.before:
            held[buffer] = self.addresses[buffer]
        self.allocator.reset_peak()
        replay = self.allocator.replay(schedule.sizes, schedule.events, held)
        # A variable that took over another buffer is found there by the next step.
        self.addresses = replay.addresses
        for old, new in schedule.renewed.items():
            self.addresses[old] = replay.addresses[new]
        return replay


def simulate(work: Workload, extra: list[int] | None = None, branches: tuple[bool, ...] = (True,)) -> Simulation:
    """Simulate steady steps; `extra` are buffers the process holds besides those of the graph."""
    threads = current_machine().inter_op_threads
    extra = extra or []
    best: Simulation | None = None
    for branch in branches:
        schedules = [execute(work, threads, seed, branch) for seed in range(WARM_UP_STEPS + STEADY_STEPS)]
        found = _settle(schedules, extra)
        if best is None or found.peak_bytes > best.peak_bytes:
            best = found
    assert best is not None
    return best


def _settle(schedules: list[Schedule], extra: list[int]) -> Simulation:
    process = _Process(schedules[0], extra)
    runs = []
    for schedule in schedules:
        bytes_before = process.allocator.bytes_in_use
        chunks = process.allocator
        held = np.array([chunks.chunk_bytes(address) if address is not None else 0 for address in (process.addresses[buffer] for buffer in schedule.before)], np.int64)
        replay = process.step(schedule)
        runs.append((process.allocator.peak_bytes_in_use, bytes_before, held, schedule, replay))
    steady = runs[WARM_UP_STEPS:]
    peaks = [run[0] for run in steady]
    middle = statistics.median_low(peaks)
    peak, bytes_before, held, schedule, replay = next(run for run in steady if run[0] == middle)
    safe = _safe_limit(schedules, extra, max(run[0] for run in runs))
    return Simulation(schedule, replay, held, bytes_before, peak, safe, tuple(peaks))


def _safe_limit(schedules: list[Schedule], extra: list[int], highest: int) -> int:
    """The smallest limit at which no simulated step runs out, and a margin for the orders that were not tried."""
    low, high = highest, highest
    while not _survives(schedules, extra, high):
        low, high = high, int(high * 1.04)
    while high - low > highest * SAFE_RESOLUTION:
        middle = (low + high) // 2
        if _survives(schedules, extra, middle):
            high = middle
        else:
            low = middle
    return int(high * (1.0 + SAFE_MARGIN))


def _survives(schedules: list[Schedule], extra: list[int], limit_bytes: int) -> bool:
    try:
        process = _Process(schedules[0], extra, limit_bytes)
        for schedule in schedules:
            process.step(schedule)
    except OutOfMemory:
        return False
    return True
