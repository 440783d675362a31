"""The state of the remat search: a schedule, its memory profile, and what each change of it would do to memory.

Where a task is rematerialized is a *slot*: the task of the base order that it runs just before. Copies that share a
slot keep the base order, so every instance has a *key* that never changes: slot and task combined in one number. What
a copy reads was made before it, so any slot after the task itself is legal, and a schedule is a slot for each task.

A change affects the lifetimes of a few values. Its effect is computed from these alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lowtide.planning.memory_profile import bytes_in_use
from lowtide.planning.problem import Instance, PlanningProblem

# The new slot of each task that changes: `ScheduleState.no_slot` where it is not rematerialized any more.
Change = Mapping[int, int]
# First key, last key, and bytes; the bytes are negative for a lifetime that a change removes.
Lifetime = tuple[int, int, int]

# Up to this many comparisons of lifetimes and positions plain Python is faster than NumPy.
_FEW = 300
# How the search counts its effort: this many tasks in a change, and this many positions in a schedule, are as much
# work as one more change.
_LARGE, _LONG = 8, 2000


@dataclass(slots=True)
class Effect:
    """What a change would do: extra time, and the change of the area above the budget (bytes summed over positions)."""

    cost_us: float
    area: int


@dataclass(slots=True)
class _StateDelta:
    """The parts of a change: lifetimes and instances that are removed and added, and buffers that are reused."""

    values: dict[int, tuple[Lifetime, ...]]
    lifetimes: list[Lifetime]
    removed: list[int]
    added: list[int]
    reused: dict[int, int]
    cost_us: float


class ScheduleState:
    """A schedule as slots, its memory profile, and the area of that profile above a budget."""

    def __init__(self, problem: PlanningProblem, budget_bytes: int) -> None:
        count = len(problem)
        self.problem = problem
        self.no_slot = count
        self.width = count + 1
        # Variables count in `base_bytes`, so a task makes every value.
        self.maker = [maker for maker in problem.makers if maker is not None]
        self.readers = problem.readers
        self.budget_bytes = budget_bytes
        # How many changes were evaluated, large ones counted as several: effort that is the same on every machine.
        self.tried = 0
        self.reset([self.no_slot] * count)

    def reset(self, slots: Iterable[int]) -> None:
        """Compute everything anew for these slots."""
        self.slots = list(slots)
        problem, no_slot, width = self.problem, self.no_slot, self.width
        copies = [slot * width + task for task, slot in enumerate(self.slots) if slot < no_slot]
        self.keys = sorted([task * width + no_slot for task in range(no_slot)] + copies)
        self.cost_us = sum(problem.cost_us[key % width] for key in copies)
        self.lifetimes = [self._lifetimes(value) for value in range(len(problem.sizes))]
        every = [lifetime for lifetimes in self.lifetimes for lifetime in lifetimes]
        starts, ends, sizes = np.array(every, np.int64).reshape(-1, 3).T
        keys = np.array(self.keys, np.int64)
        first, last = np.searchsorted(keys, starts), np.searchsorted(keys, ends)
        self.live = bytes_in_use(first, last, sizes, len(keys)) + problem.base_bytes
        self.ending = np.zeros(len(keys), np.int64)
        np.add.at(self.ending, last, sizes)
        self.reused = {key: self._reused_at(key) for key in self.keys if problem.reuses[self._task(key)]}
        workspace = [problem.workspace[self._task(key)] - self.reused.get(key, 0) for key in self.keys]
        self.in_use = self.live + np.array(workspace, np.int64)
        self._measure_area()

    def snapshot(self) -> ScheduleState:
        """Return a copy of the state, to `restore` later."""
        now = copy(self)
        now._copy_columns()
        return now

    def restore(self, snapshot: ScheduleState) -> None:
        """Return to a snapshot; the budget stays as it is."""
        budget, tried = self.budget_bytes, self.tried
        self.__dict__.update(snapshot.__dict__)
        self.tried = tried
        self._copy_columns()
        if budget != self.budget_bytes:
            self.set_budget(budget)

    def _copy_columns(self) -> None:
        """Copy the columns, which are changed in place."""
        for name in ("slots", "keys", "lifetimes", "reused", "live", "ending", "in_use"):
            setattr(self, name, getattr(self, name).copy())

    def set_budget(self, budget_bytes: int) -> None:
        """Compute the area above another budget."""
        self.budget_bytes = budget_bytes
        self._measure_area()

    def _measure_area(self) -> None:
        self.excess = np.zeros(len(self.keys) + 1, np.int64)
        over = np.maximum(self.in_use - self.budget_bytes, 0)
        np.cumsum(over, out=self.excess[1:])
        self.over_budget = np.zeros(len(self.keys) + 1, np.int64)
        np.cumsum(over > 0, out=self.over_budget[1:])
        self.area = int(self.excess[-1])
        self.first_over = int(np.searchsorted(self.excess, 0, "right")) - 1
        self.last_over = int(np.searchsorted(self.excess, self.area)) - 1

    @property
    def peak_bytes(self) -> int:
        return int(self.in_use.max(initial=self.problem.base_bytes))

    def schedule(self) -> list[Instance]:
        """Return the instances in order."""
        no_slot = self.no_slot
        pairs = (divmod(key, self.width) for key in self.keys)
        return [slot if task == no_slot else ~task for slot, task in pairs]

    def remat_tasks(self) -> list[int]:
        """Return the tasks that are rematerialized."""
        return [task for task, slot in enumerate(self.slots) if slot < self.no_slot]

    def area_within(self, start: int, end: int, size: int) -> int:
        """Return by how much `size` bytes fewer at the keys from `start` up to `end` can reduce the area."""
        low, high = bisect_left(self.keys, start), bisect_left(self.keys, end)
        excess = int(self.excess[high] - self.excess[low])
        return min(excess, size * int(self.over_budget[high] - self.over_budget[low])) if excess else 0

    def peak_within(self, start: int, end: int) -> int:
        """Return the peak at the keys from `start` up to `end`, exclusive."""
        low, high = bisect_left(self.keys, start), bisect_left(self.keys, end)
        return int(self.in_use[low:high].max(initial=0))

    def over_budget_within(self, start: int, end: int) -> int:
        """Return how many positions are above the budget at the keys from `start` up to `end`."""
        low, high = bisect_left(self.keys, start), bisect_left(self.keys, end)
        return int(self.over_budget[high] - self.over_budget[low])

    def effect(self, change: Change) -> Effect:
        """Return what a change would do."""
        self.tried += 1 + len(change) // _LARGE
        delta = self._delta(change)
        events = sorted(self._events(delta))
        removed = {bisect_left(self.keys, key) for key in delta.removed}
        area = shift = 0
        for (place, size), (end, _) in pairwise(events):
            shift += size
            if end == place:
                continue
            if place in removed:
                area -= int(self.excess[end] - self.excess[place])
            elif shift:
                area += self._shifted_area(place, end, shift)
        if delta.added:
            _, in_use = self._arrivals(delta)
            area += sum(max(0, each - self.budget_bytes) for each in in_use)
        return Effect(delta.cost_us, area)

    def _shifted_area(self, low: int, high: int, shift: int) -> int:
        """Return by how much the area grows if the bytes at these positions change by `shift`."""
        if shift < 0:
            # A reduction counts only where the profile is above the budget.
            low, high = max(low, self.first_over), min(high, self.last_over + 1)
            if high <= low:
                return 0
        over = self.in_use[low:high] + (shift - self.budget_bytes)
        return int(np.maximum(over, 0, out=over).sum()) - int(self.excess[high] - self.excess[low])

    def commit(self, change: Change) -> None:
        """Apply a change."""
        self.tried += len(self.keys) // _LONG
        delta = self._delta(change)
        low, high, shift = self._shift(delta)
        added_live, added_in_use = self._arrivals(delta)
        self.in_use[low:high] += shift
        # A buffer that is reused in place is still alive.
        for key, reused in delta.reused.items():
            if key not in delta.added:
                shift[bisect_left(self.keys, key) - low] += reused - self.reused.get(key, 0)
        self.live[low:high] += shift
        for _, end, size in delta.lifetimes:
            if size < 0:
                self.ending[bisect_left(self.keys, end)] += size
        self._exchange(delta, added_live, added_in_use)
        for _, end, size in delta.lifetimes:
            if size > 0:
                self.ending[bisect_left(self.keys, end)] += size
        for task, slot in change.items():
            self.slots[task] = slot
        for value, lifetimes in delta.values.items():
            self.lifetimes[value] = lifetimes
        self.cost_us += delta.cost_us
        self._measure_area()

    def _exchange(self, delta: _StateDelta, added_live: list[int], added_in_use: list[int]) -> None:
        """Remove and add positions."""
        if delta.removed:
            places = [bisect_left(self.keys, key) for key in delta.removed]
            self.live, self.ending, self.in_use = (
                np.delete(column, places) for column in (self.live, self.ending, self.in_use)
            )
            for place in sorted(places, reverse=True):
                del self.keys[place]
            for key in delta.removed:
                self.reused.pop(key, None)
        if delta.added:
            places = [bisect_left(self.keys, key) for key in delta.added]
            self.live = np.insert(self.live, places, added_live)
            self.ending = np.insert(self.ending, places, 0)
            self.in_use = np.insert(self.in_use, places, added_in_use)
            self.keys += delta.added
            self.keys.sort()
        self.reused |= delta.reused

    def _delta(self, change: Change) -> _StateDelta:
        problem, slots, width, no_slot = self.problem, self.slots, self.width, self.no_slot
        before = {task: slots[task] for task in change}
        cost, removed, added = 0.0, [], []
        touched: set[int] = set()
        for task, slot in change.items():
            if slot == slots[task]:
                continue
            touched.update(problem.makes[task], problem.reads[task])
            if slots[task] < no_slot:
                removed.append(slots[task] * width + task)
                cost -= problem.cost_us[task]
            if slot < no_slot:
                added.append(slot * width + task)
                cost += problem.cost_us[task]
            slots[task] = slot
        added.sort()
        values = {}
        lifetimes: list[Lifetime] = []
        for value in touched:
            now = self._lifetimes(value)
            if now != self.lifetimes[value]:
                values[value] = now
                lifetimes += [(start, end, -size) for start, end, size in self.lifetimes[value]]
                lifetimes += now
        for task, slot in before.items():
            slots[task] = slot
        reused = self._recompute_reuse(values, {end for _, end, _ in lifetimes}.difference(removed).union(added))
        return _StateDelta(values, lifetimes, removed, added, reused, cost)

    def _recompute_reuse(self, values: dict[int, tuple[Lifetime, ...]], keys: set[int]) -> dict[int, int]:
        """Return the bytes that are reused in place at these keys, given new lifetimes of some values."""
        keys = {key for key in keys if self.problem.reuses[self._task(key)]}
        if not keys:
            return {}
        before = {value: self.lifetimes[value] for value in values}
        for value, lifetimes in values.items():
            self.lifetimes[value] = lifetimes
        reused = {key: self._reused_at(key) for key in keys}
        for value, lifetimes in before.items():
            self.lifetimes[value] = lifetimes
        return reused

    def _events(self, delta: _StateDelta) -> list[tuple[int, int]]:
        """Return (position, bytes): from which existing positions on how many more bytes are in use."""
        keys = self.keys
        events = [(bisect_left(keys, start), size) for start, _, size in delta.lifetimes]
        events += [(bisect_right(keys, end), -size) for _, end, size in delta.lifetimes]
        for key, reused in delta.reused.items():
            more = reused - self.reused.get(key, 0)
            if more and key not in delta.added:
                place = bisect_left(keys, key)
                events += [(place, -more), (place + 1, more)]
        for key in delta.removed:
            place = bisect_left(keys, key)
            events += [(place, 0), (place + 1, 0)]
        return events

    def _shift(self, delta: _StateDelta) -> tuple[int, int, npt.NDArray[np.int64]]:
        """Return the range of existing positions that a delta affects, and by how many bytes each changes."""
        events = self._events(delta)
        if not events:
            return 0, 0, np.zeros(0, np.int64)
        low, high = min(events)[0], max(events)[0]
        shift = np.zeros(high - low + 1, np.int64)
        for place, size in events:
            shift[place - low] += size
        return low, high, np.cumsum(shift[:-1])

    def _arrivals(self, delta: _StateDelta) -> tuple[list[int], list[int]]:
        """Return the bytes alive, and the bytes in use, at the instances that are added."""
        added, lifetimes = delta.added, delta.lifetimes
        live = []
        for key in added:
            # Values alive at the position before that do not end there are alive at the instance.
            place = bisect_left(self.keys, key) - 1
            live.append(int(self.live[place] - self.ending[place]))
        if len(added) * len(lifetimes) <= _FEW:
            for index, key in enumerate(added):
                live[index] += sum(size for start, end, size in lifetimes if start <= key <= end)
        else:
            starts, ends, sizes = np.array(lifetimes, np.int64).T
            keys = np.array(added, np.int64)[:, None]
            live = (np.array(live, np.int64) + ((starts <= keys) & (keys <= ends)) @ sizes).tolist()
        workspace, width, reused = self.problem.workspace, self.width, delta.reused
        in_use = [alive + workspace[key % width] - reused.get(key, 0) for alive, key in zip(live, added, strict=True)]
        return live, in_use

    def _task(self, key: int) -> int:
        slot, task = divmod(key, self.width)
        return slot if task == self.no_slot else task

    def _lifetimes(self, value: int) -> tuple[Lifetime, ...]:
        """Return the lifetimes of a value: as made first, and as rematerialized."""
        slots, width, no_slot, size = self.slots, self.width, self.no_slot, self.problem.sizes[value]
        maker = self.maker[value]
        start = end = maker * width + no_slot
        again = slots[maker] * width + maker
        again_end = again
        for reader in self.readers[value]:
            key = reader * width + no_slot
            if key > again:
                again_end = key if key > again_end else again_end
            elif key > end:
                end = key
            if slots[reader] < no_slot:
                key = slots[reader] * width + reader
                if key > again:
                    again_end = key if key > again_end else again_end
                elif key > end:
                    end = key
        lasts = self.problem.lasting[value]
        last = (no_slot - 1) * width + no_slot
        if slots[maker] == no_slot:
            return ((start, last if lasts else end, size),)
        return (start, end, size), (again, last if lasts else again_end, size)

    def _reused_at(self, key: int) -> int:
        """Return the bytes that an instance reuses from its inputs, where no other task still needs them."""
        given: set[int] = set()
        reused = 0
        for made, source in self.problem.reuses[self._task(key)]:
            if made in given or source in given:
                continue
            if any(start < key == end for start, end, _ in self.lifetimes[source]):
                given |= {made, source}
                reused += self.problem.sizes[made]
        return reused
