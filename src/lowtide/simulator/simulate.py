"""Simulates the memory of a step: the executor's allocations, replayed in the allocator, step after step.

A step starts with the allocator as the earlier steps left it, and the executor's threads never interleave in exactly
the same way twice. So several steps are simulated in several processes, each with its own random numbers. The median of
the steady steps is the prediction. The safe bound is found by running the same steps under a limit. `tuning.py` has the
numbers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowtide.simulator import tuning
from lowtide.simulator.allocation_stream import AllocationStream
from lowtide.simulator.bfc import OutOfMemory, Replay
from lowtide.simulator.simulated_process import Residents, SimulatedProcess
from lowtide.simulator.step_variants import StepVariants, has_loops, step_variants
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
    """The peaks of all simulated calls, from the lowest."""
    highest_bytes: int = 0
    """The highest peak of a step, one that frees memory as late as it can included."""
    other_bytes: int = 0
    """Bytes in use that belong neither to the step nor to `Residents.extra`."""

    @property
    def has_modes(self) -> bool:
        """Whether some steps of a program with loops take much more memory than the usual step."""
        return has_loops(self.stream) and self.highest_bytes > self.peak_bytes * (1.0 + tuning.SAFE_SPREAD_IN_LOOPS)


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
    given = residents or Residents(), together, in_order, budget_bytes
    found = _simulate_branch(step_variants(work, True), *given)
    if not found.stream.guesses:
        return found
    other = _simulate_branch(step_variants(work, False), *given)
    return max(found, other, key=lambda simulation: simulation.peak_bytes)


# Half of the weight of all calls, apart from rounding.
_HALF = 0.5 - 1e-9


def _simulate_branch(
    variants: StepVariants, residents: Residents, together: int, in_order: bool, budget_bytes: int | None
) -> Simulation:
    calls: list[tuple[_SteadyStep, float]] = []
    for streams, share in variants.usual:
        found = _calls(streams, residents, together, _least_promise(streams[0]) if in_order else None)
        calls += [(step, share / len(found)) for step in found]
    calls.sort(key=lambda call: call[0].peak_bytes)
    reached = accumulate(weight for _, weight in calls)
    shown = next(step for (step, _), total in zip(calls, reached, strict=True) if total >= _HALF)
    peaks = [step.peak_bytes for step, _ in calls]
    hoarding = variants.hoarding
    highest = peaks[-1] if hoarding is None else max(peaks[-1], _highest_peak(variants, hoarding, residents))
    median, streams = shown.peak_bytes, variants.all_streams()
    safe = _safe_bytes(streams, residents, highest if has_loops(streams[0]) else median, in_order, budget_bytes)
    return Simulation(
        shown.stream, shown.replay, shown.held, shown.bytes_before, median, safe, tuple(peaks), highest,
        shown.other_bytes,
    )  # fmt: skip


def _highest_peak(variants: StepVariants, hoarding: AllocationStream, residents: Residents) -> int:
    """Return the highest peak of a process in which every second step frees memory as late as it can.

    The steps between leave the free memory in other pieces each time.
    """
    process = SimulatedProcess(hoarding, residents)
    process.allocator.reset_peak()
    for stream in variants.all_streams():
        process.step_without_curve(stream)
        process.step_without_curve(hoarding)
    return process.allocator.peak_bytes_in_use


def _calls(
    streams: list[AllocationStream], residents: Residents, together: int, arena_bytes: int | None
) -> list[_SteadyStep]:
    """Return the highest step of each call in all simulated processes."""
    processes = [
        _run_process(_shuffled(streams, seed), residents, arena_bytes) for seed in range(_process_count(streams))
    ]
    return [
        max(steps[first : first + together], key=lambda step: step.peak_bytes)
        for steps in processes
        for first in range(max(len(steps) - together + 1, 1))
    ]


def _safe_bytes(
    streams: list[AllocationStream], residents: Residents, expected: int, in_order: bool, budget_bytes: int | None
) -> int:
    """Return the bound; `expected` is the median peak, or the highest one of a program with loops."""
    spread = tuning.SAFE_SPREAD_IN_ORDER if in_order else tuning.SAFE_SPREAD
    floor = int(expected * (1.0 + (tuning.SAFE_SPREAD_IN_LOOPS if has_loops(streams[0]) else spread)))
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
    other_bytes: int


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
        peak_bytes = process.allocator.peak_bytes_in_use
        steps.append(_SteadyStep(peak_bytes, bytes_before, held, stream, replay, process.other_bytes))
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
    """Steps of one process to run under a limit; with a `seed`, small allocations between its buffers are drawn."""

    streams: list[AllocationStream]
    seed: int | None = None
    has_arena: bool = False
    """Whether the process fetches an arena, as for a planned step."""

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
        arena_bytes = total_bytes if self.has_arena else None
        process = SimulatedProcess(self.streams[0], residents, limit_bytes, draw, arena_bytes)
        process.allocator.reset_peak()
        for stream in self.streams:
            process.step_without_curve(stream)
        return process


def _limited_trials(streams: list[AllocationStream]) -> list[_Trial]:
    """Return the trials of plain steps: each process without and with small allocations between its buffers."""
    count = tuning.LIMITED_EVENTS // max(len(streams[0].events) * len(streams), 1)
    seeds = range(min(max(count, 1), tuning.MOST_LIMITED_PROCESSES))
    return [_Trial(_shuffled(streams, seed), drawn) for seed in seeds for drawn in (None, seed)]


def _ordered_trials(streams: list[AllocationStream]) -> list[_Trial]:
    """Return the trials of steps whose order is fixed, so that only the addresses of their chunks differ.

    The addresses depend on small tensors: one that lasts and lies between two large chunks keeps them apart, and the
    same requests then take a fifth more in one process than in another. Without small allocations, all processes would
    be alike.
    """
    count = tuning.LIMITED_EVENTS_IN_ORDER // max(len(streams[0].events) * len(streams), 1)
    seeds = range(min(max(count, 2), tuning.MOST_PROCESSES_IN_ORDER))
    return [_Trial(_shuffled(streams, seed), seed, has_arena=True) for seed in seeds]


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
