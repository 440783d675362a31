"""Simulate a step's memory: the executor's order of allocations, replayed in the allocator, step after step.

A step finds the allocator as the steps before it left it, and the executor's threads never interleave quite the
same way twice. So several steps are simulated, each with its own chance; the middle one of the steady steps is
the prediction, and all of them together, with the allocator's regions cut to a limit, give the safe bound.
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
from lowtide.simulator.arena import basin_requests
from lowtide.simulator.bfc import BfcAllocator, OutOfMemory, Replay
from lowtide.simulator.buffer_references import Schedule
from lowtide.simulator.executor import execute
from lowtide.simulator.workload import Workload

# The first steps find an allocator that has not settled yet.
WARM_UP_STEPS = 1
# Small programs are simulated for more steps: their variables wander through the allocator for a while.
FEWEST_STEPS, MOST_STEPS = 3, 20
FEW_NODES = 20_000
AGING_EVENTS, MOST_AGING_STEPS = 70_000, 24
REPLAYED_EVENTS, MOST_LIVES = 130_000, 8
LIMITED_EVENTS, MOST_LIMITED_LIVES = 70_000, 6
# Steps in order are planned ones, whose bound is a promise: more processes are looked at, and at least two.
LIMITED_EVENTS_IN_ORDER, MOST_LIVES_IN_ORDER = 250_000, 16
# Beyond what the simulated steps show: threads interleave in more ways than are tried. Real steps differ by this
# much from their middle one; rounds of a loop overtake each other, so steps with loops differ more.
SAFE_MARGIN = 0.015
SAFE_SPREAD, SAFE_SPREAD_IN_LOOPS = 0.07, 0.4
# What is planned for a budget has to hold with so much less too. Where chunks lie is a matter of luck, and who was
# lucky at the budget only is not at the next limit.
LESS_THAN_THE_BUDGET = (0.0, 0.0075, 0.015, 0.03)
# Steps whose order is held by control edges differ only in where their chunks lie.
SAFE_SPREAD_IN_ORDER = 0.04
# Tensors of a few bytes that a process keeps for each of the step's own lasting buffers, at most: constants of what was
# traced before, numbers from Python.
MOST_CRUMBS = 2.0
# Tensors as large as the largest that lasts, which are there at once before the first step: an op that makes a batch of
# random numbers, or casts and scales one, has up to two more of its size.
MOST_PASSING = 2
SAFE_BYTES = 1 << 19


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


@dataclass(frozen=True, slots=True)
class Residents:
    """What a process holds besides the step's own buffers, and how the step's variables came into being."""

    extra: tuple[int, ...] = ()
    """Bytes of variables that the step does not touch."""
    drawn: frozenset[int] = frozenset()
    """Handles of variables whose first value was drawn at random and scaled: three tensors, of which the last stays."""


class _Process:
    """One process that runs step after step: an allocator and where the lasting buffers lie in it."""

    def __init__(
        self,
        schedule: Schedule,
        residents: Residents,
        limit_bytes: int | None = None,
        crumbs: random.Random | None = None,
        basin_of: int | None = None,
    ) -> None:
        """With `crumbs`, chance says how many tiny tensors that no graph tells of lie between the buffers.

        With `basin_of`, the process fetches a basin for a planned step that takes so much.
        """
        self.allocator = BfcAllocator(limit_bytes)
        self.addresses: list[int | None] = [None] * len(schedule.sizes)
        self.crumbs = crumbs
        self.crumbs_for_each = MOST_CRUMBS * crumbs.random() if crumbs is not None else 0.0
        # Seeds and handles come before the first weight, so the first region is a small one.
        self.allocator.free(self.allocator.allocate(1))
        # A planned step fetches its basin before its function is called, and a function makes its constants when it is
        # called first.
        early = len(schedule.before) if basin_of is None else schedule.first_constant
        self._make(schedule, schedule.before[:early], residents)
        for size in residents.extra:
            self.allocator.allocate(size)
        if crumbs is not None:
            # What the process has done before, to make a batch for example, may have fetched a region more.
            largest = max((schedule.sizes[buffer] for buffer in schedule.before), default=0)
            for address in [self.allocator.allocate(largest) for _ in range(crumbs.randrange(MOST_PASSING + 1))]:
                self.allocator.free(address)
        if basin_of is not None:
            self._fetch_basin(basin_of)
            self._make(schedule, schedule.before[early:], residents)

    def _make(self, schedule: Schedule, buffers: Sequence[int], residents: Residents) -> None:
        """Make buffers that last."""
        allocate, free, crumbs = self.allocator.allocate, self.allocator.free, self.crumbs
        for buffer in buffers:
            if crumbs is not None:
                for _ in range(int(self.crumbs_for_each + crumbs.random())):
                    allocate(1)
            size = schedule.sizes[buffer]
            if schedule.owners[buffer] in residents.drawn and buffer not in schedule.handles:
                drawn, scaled = allocate(size), allocate(size)
                self.addresses[buffer] = allocate(size)
                free(scaled)
                free(drawn)
            else:
                self.addresses[buffer] = allocate(size)

    def _fetch_basin(self, total_bytes: int) -> None:
        """Do what a planned step does before its first one."""
        allocator = self.allocator
        for wanted in basin_requests(total_bytes, allocator.bytes_in_use, allocator.peak_bytes_in_use):
            with suppress(OutOfMemory):
                allocator.free(allocator.allocate(wanted))
                break

    def chunks(self, schedule: Schedule) -> npt.NDArray[np.int64]:
        """Chunk sizes of the buffers that exist before a step."""
        sizes = [
            0 if (address := self.addresses[buffer]) is None else self.allocator.chunk_bytes(address)
            for buffer in schedule.before
        ]
        return np.array(sizes, np.int64)

    def step(self, schedule: Schedule) -> Replay:
        """Run one step and tell what it did."""
        self.allocator.reset_peak()
        replay = self.allocator.replay(schedule.sizes, schedule.events, self._held(schedule))
        self._settle_variables(schedule, replay.addresses)
        return replay

    def rehearse(self, schedule: Schedule) -> None:
        """Run one step only to see whether it runs out."""
        allocate, free, sizes, held = self.allocator.allocate, self.allocator.free, schedule.sizes, self._held(schedule)
        for event in schedule.events:
            if event >= 0:
                held[event] = allocate(sizes[event])
            else:
                free(held[~event])
                held[~event] = None
        self._settle_variables(schedule, held)

    def _held(self, schedule: Schedule) -> list[int | None]:
        held: list[int | None] = [None] * len(schedule.sizes)
        for buffer in schedule.before:
            held[buffer] = self.addresses[buffer]
        return held

    def _settle_variables(self, schedule: Schedule, addresses: list[int | None]) -> None:
        """A variable that took over another buffer is found there by the next step."""
        self.addresses = addresses
        lasting = set(schedule.before)
        for old, new in schedule.renewed.items():
            if new in lasting:
                # It shares a constant's or another variable's buffer; the next step's first update would copy it.
                self.addresses[old] = self.allocator.allocate(schedule.sizes[old])
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
    """Simulate steady steps in a process that holds `residents`; `in_order` if control edges hold their order.

    Such steps are planned for a budget: the safe bound is within it only if a limit of just the budget holds too.

    Where a branch depends on the data, both are looked at and the one that takes more is shown. Where several steps
    run `together`, as one call, the peak is that of the highest among them.
    """
    found = _settle(_schedules(work, True), residents or Residents(), together, in_order, budget_bytes)
    if not found.schedule.guesses:
        return found
    other = _settle(_schedules(work, False), residents or Residents(), together, in_order, budget_bytes)
    return max(found, other, key=lambda simulation: simulation.peak_bytes)


def _schedules(work: Workload, branch: bool) -> list[Schedule]:
    threads = current_machine().inter_op_threads
    first = execute(work, threads, 0, branch)
    # In a large program chance evens out; a small one is as likely to be high as low, and looking again costs little.
    steps = int((FEW_NODES / max(len(first.order), 1)) ** 2)
    steps = WARM_UP_STEPS + min(max(steps, FEWEST_STEPS), MOST_STEPS)
    return [first, *(execute(work, threads, seed, branch) for seed in range(1, steps))]


def _settle(
    schedules: list[Schedule], residents: Residents, together: int, in_order: bool, budget_bytes: int | None
) -> Simulation:
    basin_of = _least_promise(schedules[0]) if in_order else None
    lives = [_live(_shuffled(schedules, life), residents, basin_of) for life in range(_lives(schedules))]
    calls = [
        max(runs[first : first + together], key=lambda run: run.peak_bytes)
        for runs in lives
        for first in range(max(len(runs) - together + 1, 1))
    ]
    peaks = [run.peak_bytes for run in calls]
    middle = statistics.median_low(peaks)
    shown = next(run for run in calls if run.peak_bytes == middle)
    in_loops = len(schedules[0].order) > len(set(schedules[0].order))
    spread = SAFE_SPREAD_IN_LOOPS if in_loops else SAFE_SPREAD_IN_ORDER if in_order else SAFE_SPREAD
    floor = int(middle * (1.0 + spread))
    others = _lives_in_order(schedules) if in_order else _lives_within(schedules)
    if in_order:
        floor = max(floor, *(life.highest(residents) for life in others))
    floor += SAFE_BYTES
    if budget_bytes is not None and floor <= budget_bytes:
        safe = _safe_within(others, residents, floor, budget_bytes)
    else:
        safe = _safe_limit(others, residents, floor)
    return Simulation(shown.schedule, shown.replay, shown.held, shown.bytes_before, middle, safe, tuple(peaks))


class _Run(NamedTuple):
    """One step in the life of a process."""

    peak_bytes: int
    bytes_before: int
    held: npt.NDArray[np.int64]
    schedule: Schedule
    replay: Replay


def _least_promise(schedule: Schedule) -> int:
    """The least that a planned step can promise: the most that it asks for at once, and the spread."""
    sizes = schedule.sizes
    held = sum(sizes[buffer] for buffer in schedule.before)
    asked = accumulate(sizes[event] if event >= 0 else -sizes[~event] for event in schedule.events)
    return int((held + max(asked, default=0)) * (1.0 + SAFE_SPREAD_IN_ORDER))


def _live(schedules: list[Schedule], residents: Residents, basin_of: int | None = None) -> list[_Run]:
    """The later steps of one process, which find the allocator as it will stay."""
    process = _Process(schedules[0], residents, basin_of=basin_of)
    steps = _steps_until_aged(schedules)
    runs = []
    for step in range(steps):
        schedule = schedules[step % len(schedules)]
        if step < steps // 2:
            process.rehearse(schedule)
            continue
        bytes_before, held = process.allocator.bytes_in_use, process.chunks(schedule)
        replay = process.step(schedule)
        runs.append(_Run(process.allocator.peak_bytes_in_use, bytes_before, held, schedule, replay))
    return runs


def _shuffled(schedules: list[Schedule], life: int) -> list[Schedule]:
    """The same steps in another order: where a process' variables end up hangs on what came first."""
    return random.Random(life).sample(schedules, len(schedules)) if life else schedules


def _lives(schedules: list[Schedule]) -> int:
    """One process is one draw of many; where steps are short, several are looked at."""
    events = max(len(schedules[0].events), 1) * _steps_until_aged(schedules)
    return min(max(REPLAYED_EVENTS // events, 1), MOST_LIVES)


def _steps_until_aged(schedules: list[Schedule]) -> int:
    """Replaying a step costs little, and an allocator needs some steps until its chunks are as worn as they get."""
    events = max(len(schedules[0].events), 1)
    return min(max(AGING_EVENTS // events, len(schedules) + 2), MOST_AGING_STEPS)


class _Life(NamedTuple):
    """Steps of one process; `crumbs` draws the tiny tensors in it, if it is one for planned steps."""

    schedules: list[Schedule]
    crumbs: int | None = None

    def peak_within(self, residents: Residents, limit_bytes: int) -> int | None:
        """Its highest peak under a limit; None if it runs out."""
        try:
            return self._pass(residents, limit_bytes, limit_bytes).allocator.peak_bytes_in_use
        except OutOfMemory:
            return None

    def highest(self, residents: Residents) -> int:
        """Its highest peak without a limit."""
        return self._pass(residents, _least_promise(self.schedules[0])).allocator.peak_bytes_in_use

    def _pass(self, residents: Residents, total_bytes: int, limit_bytes: int | None = None) -> _Process:
        crumbs = None if self.crumbs is None else random.Random(self.crumbs)
        basin_of = None if crumbs is None else total_bytes
        process = _Process(self.schedules[0], residents, limit_bytes, crumbs, basin_of)
        process.allocator.reset_peak()
        for schedule in self.schedules:
            process.rehearse(schedule)
        return process


def _lives_within(schedules: list[Schedule]) -> list[_Life]:
    """Processes to be tried under a limit."""
    count = LIMITED_EVENTS // max(len(schedules[0].events) * len(schedules), 1)
    return [_Life(_shuffled(schedules, life)) for life in range(min(max(count, 1), MOST_LIMITED_LIVES))]


def _lives_in_order(schedules: list[Schedule]) -> list[_Life]:
    """Processes for steps that differ only in where their chunks lie.

    What lies where hangs on tiny tensors: one that lasts and lies between two large ones keeps them apart. The same
    requests then take a fifth more in one process than in another. Without crumbs all processes look alike.
    """
    count = LIMITED_EVENTS_IN_ORDER // max(len(schedules[0].events) * len(schedules), 1)
    lives = range(min(max(count, 2), MOST_LIVES_IN_ORDER))
    return [_Life(_shuffled(schedules, life), crumbs=life) for life in lives]


def _safe_limit(lives: list[_Life], residents: Residents, floor: int) -> int:
    """The smallest limit from the floor on at which no process runs out, nor at one that is smaller by the margin.

    A larger limit can run out where a smaller one did not, because its last region has another size.
    """
    known: dict[int, bool] = {}
    hardest_first = list(lives)

    def holds(position: int) -> bool:
        if position not in known:
            limit = int(floor * (1.0 + SAFE_MARGIN / 2) ** position)
            broken = next((life for life in hardest_first if life.peak_within(residents, limit) is None), None)
            known[position] = broken is None
            if broken is not None:
                # Where it runs out it is likely to run out next time.
                hardest_first.remove(broken)
                hardest_first.insert(0, broken)
        return known[position]

    position = 0
    while not (holds(position - 2) and holds(position)):
        position += 1
    return int(floor * (1.0 + SAFE_MARGIN / 2) ** position)


def _safe_within(lives: list[_Life], residents: Residents, floor: int, budget_bytes: int) -> int:
    """The safe bound of processes whose limit is the budget: none of them takes more; above the budget if one runs out.

    The last region is as large as the limit leaves. A chunk at its end that is not worth splitting is taken whole, so a
    larger limit may mean more in use, and sometimes what fits into less does not fit.
    """
    highest = floor
    for less in LESS_THAN_THE_BUDGET:
        for life in lives:
            peak = life.peak_within(residents, int(budget_bytes * (1.0 - less)))
            if peak is None:
                return _safe_limit(lives, residents, int(budget_bytes * (1.0 + SAFE_MARGIN)))
            highest = max(highest, peak + SAFE_BYTES)
    return min(highest, budget_bytes)
