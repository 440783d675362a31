"""Simulates the memory of a step: the executor's allocations, replayed in the allocator, step after step.

A step starts with the allocator as the earlier steps left it, and the executor's threads never interleave in exactly
the same way twice. So several steps are simulated in several processes, each with its own random numbers. The median of
the steady steps is the prediction. The safe bound is found by running the same steps under a limit. `tuning.py` has the
numbers.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowtide.program.machine import current_machine
from lowtide.simulator import tuning
from lowtide.simulator.allocation_stream import AllocationStream
from lowtide.simulator.arena import arena_requests
from lowtide.simulator.bfc import BfcAllocator, OutOfMemory, Replay
from lowtide.simulator.executor import execute
from lowtide.simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class Simulation:
    """The allocations of a typical step, with the peaks of all simulated steps and the safe bound."""

    stream: AllocationStream
    replay: Replay
    held_before: np.ndarray
    """Chunk sizes of the buffers that exist before the step, by buffer."""
    bytes_before: int
    peak_bytes: int
    safe_bytes: int
    peaks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Residents:
    """What a process holds besides the step's own buffers, and how the step's variables were created."""

    extra: tuple[int, ...] = ()
    """Bytes of variables that the step does not use."""
    drawn: frozenset[int] = frozenset()
    """Handles of variables with a random initial value. It takes three tensors, of which the last stays: random numbers
    that are drawn, scaled and shifted."""


class SimulatedProcess:
    """A process that runs step after step: an allocator, and the addresses of the lasting buffers in it."""

    def __init__(
        self,
        stream: AllocationStream,
        residents: Residents,
        limit_bytes: int | None = None,
        small_allocations: random.Random | None = None,
        arena_bytes: int | None = None,
    ) -> None:
        """Create the buffers that exist before the first step.

        `small_allocations` draws a number of small tensors that lie between the buffers and appear in no graph. With
        `arena_bytes`, the process fetches an arena for a planned step of that size.
        """
        self.allocator = BfcAllocator(limit_bytes)
        self.addresses: list[int | None] = [None] * len(stream.sizes)
        self.small_allocations = small_allocations
        draw = small_allocations
        self.small_per_buffer = tuning.MOST_SMALL_ALLOCATIONS * draw.random() if draw is not None else 0.0
        # Seeds and handles are allocated before the first weight, so the first region is a small one.
        self.allocator.free(self.allocator.allocate(1))
        # A planned step fetches its arena before its function is called, and a function creates its constants in its
        # first call.
        early = len(stream.before) if arena_bytes is None else stream.first_constant
        self._create(stream, stream.before[:early], residents)
        for size in residents.extra:
            self.allocator.allocate(size)
        if draw is not None:
            # Earlier work of the process, creating a batch for example, may have fetched one more region.
            largest = max((stream.sizes[buffer] for buffer in stream.before), default=0)
            count = draw.randrange(tuning.MOST_EARLY_TENSORS + 1)
            for address in [self.allocator.allocate(largest) for _ in range(count)]:
                self.allocator.free(address)
        if arena_bytes is not None:
            self._fetch_arena(arena_bytes)
            self._create(stream, stream.before[early:], residents)

    def _create(self, stream: AllocationStream, buffers: Sequence[int], residents: Residents) -> None:
        """Allocate lasting buffers."""
        allocate, free, draw = self.allocator.allocate, self.allocator.free, self.small_allocations
        for buffer in buffers:
            if draw is not None:
                for _ in range(int(self.small_per_buffer + draw.random())):
                    allocate(1)
            size = stream.sizes[buffer]
            if stream.owner_ids[buffer] in residents.drawn and buffer not in stream.handles:
                drawn, scaled = allocate(size), allocate(size)
                self.addresses[buffer] = allocate(size)
                free(scaled)
                free(drawn)
            else:
                self.addresses[buffer] = allocate(size)

    def _fetch_arena(self, total_bytes: int) -> None:
        allocator = self.allocator
        for wanted in arena_requests(total_bytes, allocator.bytes_in_use, allocator.peak_bytes_in_use):
            with suppress(OutOfMemory):
                allocator.free(allocator.allocate(wanted))
                break

    def chunk_sizes(self, stream: AllocationStream) -> npt.NDArray[np.int64]:
        """Return the chunk sizes of the buffers that exist before a step."""
        sizes = [
            0 if (address := self.addresses[buffer]) is None else self.allocator.chunk_bytes(address)
            for buffer in stream.before
        ]
        return np.array(sizes, np.int64)

    def step(self, stream: AllocationStream) -> Replay:
        """Run one step and return its curve."""
        self.allocator.reset_peak()
        replay = self.allocator.replay(stream.sizes, stream.events, self._held(stream))
        self._move_variables(stream, replay.addresses)
        return replay

    def step_without_curve(self, stream: AllocationStream) -> None:
        """Run one step; raises OutOfMemory if it exceeds the limit."""
        allocate, free, sizes, held = self.allocator.allocate, self.allocator.free, stream.sizes, self._held(stream)
        for event in stream.events:
            if event >= 0:
                held[event] = allocate(sizes[event])
            else:
                free(held[~event])
                held[~event] = None
        self._move_variables(stream, held)

    def _held(self, stream: AllocationStream) -> list[int | None]:
        held: list[int | None] = [None] * len(stream.sizes)
        for buffer in stream.before:
            held[buffer] = self.addresses[buffer]
        return held

    def _move_variables(self, stream: AllocationStream, addresses: list[int | None]) -> None:
        """Record the new addresses of the variables that were assigned another buffer."""
        self.addresses = addresses
        lasting = set(stream.before)
        for old, new in stream.renewed.items():
            if new in lasting:
                # It shares the buffer of a constant or another variable; the next step's first update would copy it.
                self.addresses[old] = self.allocator.allocate(stream.sizes[old])
            else:
                self.addresses[old] = addresses[new]
                lasting.add(new)


def simulate(
    work: Workload,
    residents: Residents | None = None,
    together: int = 1,
    in_order: bool = False,
    budget_bytes: int | None = None,
) -> Simulation:
    """Simulate steady steps in processes that hold `residents`.

    `in_order` says that control edges fix the order of the nodes, as in a planned step. For a `budget_bytes`, the safe
    bound is within the budget only if a limit of exactly the budget is enough too.

    Where a branch depends on the data, both branches are simulated and the larger simulation is returned. Where several
    steps run `together` in one call, the peak is the highest of them.
    """
    found = _simulate_branch(_streams(work, True), residents or Residents(), together, in_order, budget_bytes)
    if not found.stream.guesses:
        return found
    other = _simulate_branch(_streams(work, False), residents or Residents(), together, in_order, budget_bytes)
    return max(found, other, key=lambda simulation: simulation.peak_bytes)


def _streams(work: Workload, branch: bool) -> list[AllocationStream]:
    threads = current_machine().inter_op_threads
    first = execute(work, threads, 0, branch)
    # In a large program the random durations average out; a small one needs more draws, which cost little.
    steps = int((tuning.FEW_NODES / max(len(first.order), 1)) ** 2)
    steps = tuning.WARM_UP_STEPS + min(max(steps, tuning.FEWEST_STEPS), tuning.MOST_STEPS)
    return [first, *(execute(work, threads, seed, branch) for seed in range(1, steps))]


def _simulate_branch(
    streams: list[AllocationStream], residents: Residents, together: int, in_order: bool, budget_bytes: int | None
) -> Simulation:
    arena_bytes = _least_promise(streams[0]) if in_order else None
    processes = [
        _run_process(_shuffled(streams, seed), residents, arena_bytes) for seed in range(_process_count(streams))
    ]
    calls = [
        max(steps[first : first + together], key=lambda step: step.peak_bytes)
        for steps in processes
        for first in range(max(len(steps) - together + 1, 1))
    ]
    peaks = [step.peak_bytes for step in calls]
    median = statistics.median_low(peaks)
    shown = next(step for step in calls if step.peak_bytes == median)
    safe = _safe_bytes(streams, residents, median, in_order, budget_bytes)
    return Simulation(shown.stream, shown.replay, shown.held, shown.bytes_before, median, safe, tuple(peaks))


def _safe_bytes(
    streams: list[AllocationStream], residents: Residents, median: int, in_order: bool, budget_bytes: int | None
) -> int:
    in_loops = len(streams[0].order) > len(set(streams[0].order))
    if in_loops:
        spread = tuning.SAFE_SPREAD_IN_LOOPS
    else:
        spread = tuning.SAFE_SPREAD_IN_ORDER if in_order else tuning.SAFE_SPREAD
    floor = int(median * (1.0 + spread))
    trials = _ordered_trials(streams) if in_order else _limited_trials(streams)
    if in_order:
        floor = max(floor, *(trial.unlimited_peak(residents) for trial in trials))
    floor += tuning.SAFE_BYTES
    if budget_bytes is not None and floor <= budget_bytes:
        return _safe_within(trials, residents, floor, budget_bytes)
    return _safe_limit(trials, residents, floor)


class _SteadyStep(NamedTuple):
    """One step of a simulated process."""

    peak_bytes: int
    bytes_before: int
    held: npt.NDArray[np.int64]
    stream: AllocationStream
    replay: Replay


def _least_promise(stream: AllocationStream) -> int:
    """Return the smallest bound of a planned step: its most requested bytes at one time, and the spread."""
    sizes = stream.sizes
    held = sum(sizes[buffer] for buffer in stream.before)
    requested = accumulate(sizes[event] if event >= 0 else -sizes[~event] for event in stream.events)
    return int((held + max(requested, default=0)) * (1.0 + tuning.SAFE_SPREAD_IN_ORDER))


def _run_process(
    streams: list[AllocationStream], residents: Residents, arena_bytes: int | None = None
) -> list[_SteadyStep]:
    """Run one process and return the second half of its steps, when the allocator is in its steady state."""
    process = SimulatedProcess(streams[0], residents, arena_bytes=arena_bytes)
    count = _steps_until_aged(streams)
    steps = []
    for number in range(count):
        stream = streams[number % len(streams)]
        if number < count // 2:
            process.step_without_curve(stream)
            continue
        bytes_before, held = process.allocator.bytes_in_use, process.chunk_sizes(stream)
        replay = process.step(stream)
        steps.append(_SteadyStep(process.allocator.peak_bytes_in_use, bytes_before, held, stream, replay))
    return steps


def _shuffled(streams: list[AllocationStream], seed: int) -> list[AllocationStream]:
    """Return the same steps in another order: the final addresses of the variables depend on the first steps."""
    return random.Random(seed).sample(streams, len(streams)) if seed else streams


def _process_count(streams: list[AllocationStream]) -> int:
    """Return the number of processes to simulate: more where steps are short."""
    events = max(len(streams[0].events), 1) * _steps_until_aged(streams)
    return min(max(tuning.REPLAYED_EVENTS // events, 1), tuning.MOST_PROCESSES)


def _steps_until_aged(streams: list[AllocationStream]) -> int:
    """Return the number of steps until fragmentation has reached its steady state; replaying a step costs little."""
    events = max(len(streams[0].events), 1)
    return min(max(tuning.AGING_EVENTS // events, len(streams) + 2), tuning.MOST_AGING_STEPS)


class _Trial(NamedTuple):
    """Steps of one process to run under a limit; planned steps have a `seed` that draws small allocations."""

    streams: list[AllocationStream]
    seed: int | None = None

    def peak_within(self, residents: Residents, limit_bytes: int) -> int | None:
        """Return the highest peak under a limit; None if the process runs out of memory."""
        try:
            return self._run(residents, limit_bytes, limit_bytes).allocator.peak_bytes_in_use
        except OutOfMemory:
            return None

    def unlimited_peak(self, residents: Residents) -> int:
        """Return the highest peak without a limit."""
        return self._run(residents, _least_promise(self.streams[0])).allocator.peak_bytes_in_use

    def _run(self, residents: Residents, total_bytes: int, limit_bytes: int | None = None) -> SimulatedProcess:
        draw = None if self.seed is None else random.Random(self.seed)
        arena_bytes = None if draw is None else total_bytes
        process = SimulatedProcess(self.streams[0], residents, limit_bytes, draw, arena_bytes)
        process.allocator.reset_peak()
        for stream in self.streams:
            process.step_without_curve(stream)
        return process


def _limited_trials(streams: list[AllocationStream]) -> list[_Trial]:
    count = tuning.LIMITED_EVENTS // max(len(streams[0].events) * len(streams), 1)
    return [_Trial(_shuffled(streams, seed)) for seed in range(min(max(count, 1), tuning.MOST_LIMITED_PROCESSES))]


def _ordered_trials(streams: list[AllocationStream]) -> list[_Trial]:
    """Return the trials of steps whose order is fixed, so that only the addresses of their chunks differ.

    The addresses depend on small tensors: one that lasts and lies between two large chunks keeps them apart, and the
    same requests then take a fifth more in one process than in another. Without small allocations, all processes would
    be alike.
    """
    count = tuning.LIMITED_EVENTS_IN_ORDER // max(len(streams[0].events) * len(streams), 1)
    seeds = range(min(max(count, 2), tuning.MOST_PROCESSES_IN_ORDER))
    return [_Trial(_shuffled(streams, seed), seed) for seed in seeds]


def _safe_limit(trials: list[_Trial], residents: Residents, floor: int) -> int:
    """Return the smallest limit from `floor` on at which no trial fails, nor at a limit that is smaller by the margin.

    A larger limit can fail where a smaller one is enough, because the last region then has another size.
    """
    known: dict[int, bool] = {}
    hardest_first = list(trials)

    def limit_at(position: int) -> int:
        return int(floor * (1.0 + tuning.SAFE_MARGIN / 2) ** position)

    def holds(position: int) -> bool:
        if position not in known:
            limit = limit_at(position)
            failed = next((trial for trial in hardest_first if trial.peak_within(residents, limit) is None), None)
            known[position] = failed is None
            if failed is not None:
                # A trial that failed is likely to fail again.
                hardest_first.remove(failed)
                hardest_first.insert(0, failed)
        return known[position]

    position = 0
    while not (holds(position - 2) and holds(position)):
        position += 1
    return limit_at(position)


def _safe_within(trials: list[_Trial], residents: Residents, floor: int, budget_bytes: int) -> int:
    """Return the highest peak of the trials under the budget; a bound above the budget if one of them fails.

    The last region has the size that the limit leaves. A chunk at its end that is too small to split is taken as a
    whole, so a larger limit may mean more bytes in use, and a step may fit into a smaller limit only.
    """
    highest = floor
    for reduction in tuning.BUDGET_REDUCTIONS:
        for trial in trials:
            peak = trial.peak_within(residents, int(budget_bytes * (1.0 - reduction)))
            if peak is None:
                return _safe_limit(trials, residents, int(budget_bytes * (1.0 + tuning.SAFE_MARGIN)))
            highest = max(highest, peak + tuning.SAFE_BYTES)
    return min(highest, budget_bytes)
