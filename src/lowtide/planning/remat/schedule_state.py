"""A Draft: a course that is being worked on, and what each change of it would do to memory.

Where a task runs again is a *slot*: the task of the base order that it comes just before. Several that share a slot
keep the base order among themselves, so every instance has a *key* that never changes: slot and task make one number.
What a copy reads was made before it, so any slot after the task itself is legal, and a course is just a slot for each
task.

A change touches the lives of a few values. Its effect is worked out from these alone, without a look at the others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lowtide.planning.problem import Instance, Problem

# The slot of each task that changes: `Draft.never` where it is not to run again.
Change = Mapping[int, int]
# First key, last key, and bytes: negative for a life that is over.
Life = tuple[int, int, int]

# Up to this many comparisons of lives and positions plain Python is faster than NumPy.
_FEW = 300
# So many tasks are as much work to try as one more change, and so many positions to go over.
_LARGE, _LONG = 8, 2000


@dataclass(slots=True)
class Effect:
    """What a change would do: time on top, and bytes above the budget, summed over positions."""

    cost_us: float
    area: int


@dataclass(slots=True)
class _Difference:
    """The pieces of a change: lives that go and come, instances that go and come, places that are taken over."""

    values: dict[int, tuple[Life, ...]]
    lives: list[Life]
    gone: list[int]
    come: list[int]
    taken: dict[int, int]
    cost_us: float


class Draft:
    """A course as slots, its curve of memory, and the area of that curve above a budget."""

    def __init__(self, problem: Problem, budget_bytes: int) -> None:
        count = len(problem)
        self.problem = problem
        self.never = count
        self.width = count + 1
        self.maker = problem.makers()
        self.readers = problem.readers()
        self.budget_bytes = budget_bytes
        # How many changes were tried, large ones counted as several: work that is the same on every machine.
        self.tried = 0
        self.reset([self.never] * count)

    def reset(self, slots: Iterable[int]) -> None:
        """Work out everything anew for these slots."""
        self.slots = list(slots)
        problem, never, width = self.problem, self.never, self.width
        copies = [slot * width + task for task, slot in enumerate(self.slots) if slot < never]
        self.keys = sorted([task * width + never for task in range(never)] + copies)
        self.cost_us = sum(problem.cost_us[key % width] for key in copies)
        self.lives = [self._lives(value) for value in range(len(problem.sizes))]
        starts, ends, sizes = np.array([life for lives in self.lives for life in lives], np.int64).reshape(-1, 3).T
        keys = np.array(self.keys, np.int64)
        first, last = np.searchsorted(keys, starts), np.searchsorted(keys, ends)
        change = np.zeros(len(keys) + 1, np.int64)
        np.add.at(change, first, sizes)
        np.subtract.at(change, last + 1, sizes)
        self.live = np.cumsum(change[:-1]) + problem.base_bytes
        self.ending = np.zeros(len(keys), np.int64)
        np.add.at(self.ending, last, sizes)
        self.taken = {key: self._take(key) for key in self.keys if problem.takes[self._task(key)]}
        workspace = [problem.workspace[self._task(key)] - self.taken.get(key, 0) for key in self.keys]
        self.in_use = self.live + np.array(workspace, np.int64)
        self._survey()

    def snapshot(self) -> Draft:
        """The draft as it is now, to `restore` later."""
        now = copy(self)
        now._own()
        return now

    def restore(self, snapshot: Draft) -> None:
        """Be as the draft was when the snapshot was taken; the budget stays."""
        budget, tried = self.budget_bytes, self.tried
        self.__dict__.update(snapshot.__dict__)
        self.tried = tried
        self._own()
        if budget != self.budget_bytes:
            self.aim(budget)

    def _own(self) -> None:
        """Have columns of one's own: they are changed in place."""
        for name in ("slots", "keys", "lives", "taken", "live", "ending", "in_use"):
            setattr(self, name, getattr(self, name).copy())

    def aim(self, budget_bytes: int) -> None:
        """Measure the area against another budget."""
        self.budget_bytes = budget_bytes
        self._survey()

    def _survey(self) -> None:
        self.excess = np.zeros(len(self.keys) + 1, np.int64)
        over = np.maximum(self.in_use - self.budget_bytes, 0)
        np.cumsum(over, out=self.excess[1:])
        self.crowded = np.zeros(len(self.keys) + 1, np.int64)
        np.cumsum(over > 0, out=self.crowded[1:])
        self.area = int(self.excess[-1])
        self.first_over = int(np.searchsorted(self.excess, 0, "right")) - 1
        self.last_over = int(np.searchsorted(self.excess, self.area)) - 1

    @property
    def peak_bytes(self) -> int:
        return int(self.in_use.max(initial=self.problem.base_bytes))

    def course(self) -> list[Instance]:
        """The instances in their order."""
        never = self.never
        pairs = (divmod(key, self.width) for key in self.keys)
        return [slot if task == never else ~task for slot, task in pairs]

    def recomputed(self) -> list[int]:
        """The tasks that run again."""
        return [task for task, slot in enumerate(self.slots) if slot < self.never]

    def area_within(self, start: int, end: int, size: int) -> int:
        """The most that so many bytes less take off the area, at the keys from the first up to the second."""
        low, high = bisect_left(self.keys, start), bisect_left(self.keys, end)
        excess = int(self.excess[high] - self.excess[low])
        return min(excess, size * int(self.crowded[high] - self.crowded[low])) if excess else 0

    def highest_within(self, start: int, end: int) -> int:
        """The most bytes in use at the keys from the first up to the second, which is left out."""
        low, high = bisect_left(self.keys, start), bisect_left(self.keys, end)
        return int(self.in_use[low:high].max(initial=0))

    def crowded_within(self, start: int, end: int) -> int:
        """How many positions are above the budget at the keys from the first up to the second."""
        low, high = bisect_left(self.keys, start), bisect_left(self.keys, end)
        return int(self.crowded[high] - self.crowded[low])

    def effect(self, change: Change) -> Effect:
        """What a change would do."""
        self.tried += 1 + len(change) // _LARGE
        difference = self._difference(change)
        events = sorted(self._events(difference))
        gone = {bisect_left(self.keys, key) for key in difference.gone}
        area = shift = 0
        for (place, size), (end, _) in pairwise(events):
            shift += size
            if end == place:
                continue
            if place in gone:
                area -= int(self.excess[end] - self.excess[place])
            elif shift:
                area += self._shifted_area(place, end, shift)
        if difference.come:
            _, in_use = self._arrivals(difference)
            area += sum(max(0, each - self.budget_bytes) for each in in_use)
        return Effect(difference.cost_us, area)

    def _shifted_area(self, low: int, high: int, shift: int) -> int:
        """By how much the area grows if there are more bytes at these positions, or fewer."""
        if shift < 0:
            # Less matters only where it is too much.
            low, high = max(low, self.first_over), min(high, self.last_over + 1)
            if high <= low:
                return 0
        over = self.in_use[low:high] + (shift - self.budget_bytes)
        return int(np.maximum(over, 0, out=over).sum()) - int(self.excess[high] - self.excess[low])

    def commit(self, change: Change) -> None:
        """Make a change."""
        self.tried += len(self.keys) // _LONG
        difference = self._difference(change)
        low, high, shift = self._shift(difference)
        come_live, come_in_use = self._arrivals(difference)
        self.in_use[low:high] += shift
        # What is taken over in place is still alive.
        for key, taken in difference.taken.items():
            if key not in difference.come:
                shift[bisect_left(self.keys, key) - low] += taken - self.taken.get(key, 0)
        self.live[low:high] += shift
        for _, end, size in difference.lives:
            if size < 0:
                self.ending[bisect_left(self.keys, end)] += size
        self._exchange(difference, come_live, come_in_use)
        for _, end, size in difference.lives:
            if size > 0:
                self.ending[bisect_left(self.keys, end)] += size
        for task, slot in change.items():
            self.slots[task] = slot
        for value, lives in difference.values.items():
            self.lives[value] = lives
        self.cost_us += difference.cost_us
        self._survey()

    def _exchange(self, difference: _Difference, come_live: list[int], come_in_use: list[int]) -> None:
        """Let positions go and come."""
        if difference.gone:
            places = [bisect_left(self.keys, key) for key in difference.gone]
            self.live, self.ending, self.in_use = (
                np.delete(column, places) for column in (self.live, self.ending, self.in_use)
            )
            for place in sorted(places, reverse=True):
                del self.keys[place]
            for key in difference.gone:
                self.taken.pop(key, None)
        if difference.come:
            places = [bisect_left(self.keys, key) for key in difference.come]
            self.live = np.insert(self.live, places, come_live)
            self.ending = np.insert(self.ending, places, 0)
            self.in_use = np.insert(self.in_use, places, come_in_use)
            self.keys += difference.come
            self.keys.sort()
        self.taken |= difference.taken

    def _difference(self, change: Change) -> _Difference:
        problem, slots, width, never = self.problem, self.slots, self.width, self.never
        before = {task: slots[task] for task in change}
        cost, gone, come = 0.0, [], []
        touched: set[int] = set()
        for task, slot in change.items():
            if slot == slots[task]:
                continue
            touched.update(problem.makes[task], problem.reads[task])
            if slots[task] < never:
                gone.append(slots[task] * width + task)
                cost -= problem.cost_us[task]
            if slot < never:
                come.append(slot * width + task)
                cost += problem.cost_us[task]
            slots[task] = slot
        come.sort()
        values = {}
        lives: list[Life] = []
        for value in touched:
            now = self._lives(value)
            if now != self.lives[value]:
                values[value] = now
                lives += [(start, end, -size) for start, end, size in self.lives[value]]
                lives += now
        for task, slot in before.items():
            slots[task] = slot
        taken = self._retake(values, {end for _, end, _ in lives}.difference(gone).union(come))
        return _Difference(values, lives, gone, come, taken, cost)

    def _retake(self, values: dict[int, tuple[Life, ...]], keys: set[int]) -> dict[int, int]:
        """What is taken over in place at these keys, with other lives for some values."""
        keys = {key for key in keys if self.problem.takes[self._task(key)]}
        if not keys:
            return {}
        before = {value: self.lives[value] for value in values}
        for value, lives in values.items():
            self.lives[value] = lives
        taken = {key: self._take(key) for key in keys}
        for value, lives in before.items():
            self.lives[value] = lives
        return taken

    def _events(self, difference: _Difference) -> list[tuple[int, int]]:
        """From which of the positions that there are already how many more bytes are in use than before."""
        keys = self.keys
        events = [(bisect_left(keys, start), size) for start, _, size in difference.lives]
        events += [(bisect_right(keys, end), -size) for _, end, size in difference.lives]
        for key, taken in difference.taken.items():
            more = taken - self.taken.get(key, 0)
            if more and key not in difference.come:
                place = bisect_left(keys, key)
                events += [(place, -more), (place + 1, more)]
        for key in difference.gone:
            place = bisect_left(keys, key)
            events += [(place, 0), (place + 1, 0)]
        return events

    def _shift(self, difference: _Difference) -> tuple[int, int, npt.NDArray[np.int64]]:
        """The positions that there are already and that a difference touches, and by how many bytes."""
        events = self._events(difference)
        if not events:
            return 0, 0, np.zeros(0, np.int64)
        low, high = min(events)[0], max(events)[0]
        shift = np.zeros(high - low + 1, np.int64)
        for place, size in events:
            shift[place - low] += size
        return low, high, np.cumsum(shift[:-1])

    def _arrivals(self, difference: _Difference) -> tuple[list[int], list[int]]:
        """The bytes alive and in use at the instances that come."""
        come, lives = difference.come, difference.lives
        live = []
        for key in come:
            # What is alive in front of an instance and does not end there is alive at the instance.
            place = bisect_left(self.keys, key) - 1
            live.append(int(self.live[place] - self.ending[place]))
        if len(come) * len(lives) <= _FEW:
            for index, key in enumerate(come):
                live[index] += sum(size for start, end, size in lives if start <= key <= end)
        else:
            starts, ends, sizes = np.array(lives, np.int64).T
            keys = np.array(come, np.int64)[:, None]
            live = (np.array(live, np.int64) + ((starts <= keys) & (keys <= ends)) @ sizes).tolist()
        workspace, width, taken = self.problem.workspace, self.width, difference.taken
        in_use = [
            bytes_live + workspace[key % width] - taken.get(key, 0) for bytes_live, key in zip(live, come, strict=True)
        ]
        return live, in_use

    def _task(self, key: int) -> int:
        slot, task = divmod(key, self.width)
        return slot if task == self.never else task

    def _lives(self, value: int) -> tuple[Life, ...]:
        """From when to when a value is there, as first made and as made again."""
        slots, width, never, size = self.slots, self.width, self.never, self.problem.sizes[value]
        maker = self.maker[value]
        start = end = maker * width + never
        again = slots[maker] * width + maker
        again_end = again
        for reader in self.readers[value]:
            key = reader * width + never
            if key > again:
                again_end = key if key > again_end else again_end
            elif key > end:
                end = key
            if slots[reader] < never:
                key = slots[reader] * width + reader
                if key > again:
                    again_end = key if key > again_end else again_end
                elif key > end:
                    end = key
        lasts = self.problem.lasting[value]
        last = (never - 1) * width + never
        if slots[maker] == never:
            return ((start, last if lasts else end, size),)
        return (start, end, size), (again, last if lasts else again_end, size)

    def _take(self, key: int) -> int:
        """The bytes that an instance takes over from what it reads, where nobody else needs that any more."""
        given: set[int] = set()
        taken = 0
        for made, source in self.problem.takes[self._task(key)]:
            if made in given or source in given:
                continue
            if any(start < key == end for start, end, _ in self.lives[source]):
                given |= {made, source}
                taken += self.problem.sizes[made]
        return taken
