"""From some orders of a step's tasks to one with a low peak.

Sweeps make many orders of a few. The highest place of each is lowered by a minimum cut, which splits the order into
stages: what runs before that place, and what after it. Stages do not touch each other's memory, so in each of them
the best order that is known is taken, whichever order it comes from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.planning.memory_profile import Bytes, Gauge
from lowtide.planning.order.list_scheduling import growing_last, in_order, shrinking_first
from lowtide.planning.order.memory_cut import lowest_before
from lowtide.planning.order.tasks import TaskId, Tasks

# How many cuts are tried: so many tasks may be looked at, but at least a few cuts.
_LOOKED_AT, _FEWEST_CUTS = 300_000, 40
# An order that is so close to the lowest peak that any could have is not worth looking further.
_CLOSE = 1 / 1000
# An order that is so little above the lowest is as good, if it holds less over time.
_AS_GOOD = 1 / 500
# Of the orders that were lowered, so many are mixed with the others.
_MIXED = 6


def lowest(tasks: Tasks, wishes: Iterable[Sequence[TaskId]]) -> list[TaskId]:
    """A legal order of the tasks with a low peak, found from orders that may be good ones."""
    if not len(tasks):
        return []
    gauge = Gauge(tasks)
    starts = [_Staged(order, gauge.hills(order), [0, len(order)]) for order in _starts(tasks, list(wishes))]
    starts.sort(key=_rank)
    lowered = _Descent(tasks, gauge).lower_all(starts)
    lowered.sort(key=_rank)
    limit = int(lowered[0].peak_bytes * (1 + _AS_GOOD))
    mixed = [_mix(gauge, staged, [*starts, *lowered], limit) for staged in lowered[:_MIXED]]
    return min([*lowered, *mixed], key=lambda staged: (max(staged.peak_bytes, limit), staged.hills.sum())).order


@dataclass(slots=True)
class _Staged:
    """An order in stages: all of one stage run before any of the next."""

    order: list[TaskId]
    hills: Bytes
    bounds: list[int]
    """Where each stage begins, and where the last one ends."""

    @property
    def peak_bytes(self) -> int:
        return int(self.hills.max())

    @property
    def highest(self) -> int:
        """The place in the order where the most is in use."""
        return int(self.hills.argmax())


def _rank(staged: _Staged) -> tuple[int, int]:
    """Orders compare by their peak, and where it is the same, by all that is in use over time."""
    return staged.peak_bytes, int(staged.hills.sum())


def _starts(tasks: Tasks, wishes: list[Sequence[TaskId]]) -> list[list[TaskId]]:
    """The orders that were wished, and what sweeps make of them."""
    orders = []
    for wish in wishes:
        order = in_order(tasks, wish)
        early, late = shrinking_first(tasks, order), growing_last(tasks, order)
        orders += [order, early, late, growing_last(tasks, early), shrinking_first(tasks, late)]
    for wish in wishes[:1]:
        orders += [sweep(tasks, in_order(tasks, wish), smallest=True) for sweep in (shrinking_first, growing_last)]
    return [list(order) for order in dict.fromkeys(map(tuple, orders))]


class _Descent:
    """Lowers orders, as long as there is reason to think that it helps."""

    def __init__(self, tasks: Tasks, gauge: Gauge) -> None:
        self.tasks = tasks
        self.gauge = gauge
        self.cuts = max(_LOOKED_AT // len(tasks), _FEWEST_CUTS)
        self.floor_bytes = 0
        """No order has a lower peak."""

    def lower_all(self, starts: Iterable[_Staged]) -> list[_Staged]:
        lowered: list[_Staged] = []
        for start in starts:
            found = self.lower(start)
            lowered.append(found)
            # Where the highest task would be best of all, if nothing else counted, tells how low an order can be.
            place, freely = self._cut(_Staged(found.order, found.hills, [0, len(found.order)]), found.highest)
            self.floor_bytes = max(self.floor_bytes, int(freely.hills[place]))
            if self.cuts <= 0 or min(staged.peak_bytes for staged in lowered) <= self.floor_bytes * (1 + _CLOSE):
                break
        return lowered

    def lower(self, start: _Staged) -> _Staged:
        """Lower an order's highest place again and again; returns the lowest order on the way.

        What is before a place and what is after it stays so from then on. It is over when the highest place is one
        that has been lowered before.
        """
        best = staged = start
        settled: set[TaskId] = set()
        while self.cuts > 0:
            task = staged.order[staged.highest]
            if task in settled:
                break
            settled.add(task)
            _, staged = self._cut(staged, staged.highest)
            best = min(best, staged, key=_rank)
        return best

    def _cut(self, staged: _Staged, position: int) -> tuple[int, _Staged]:
        """Run before a task what leaves the least, and the rest of its stage after it; returns its new place."""
        self.cuts -= 1
        order, bounds = staged.order, staged.bounds
        task = order[position]
        above = bisect_right(bounds, position)
        low, high = bounds[above - 1], bounds[above]
        before = lowest_before(self.tasks, task, order[low:high], set(order[:low]))
        first = [other for other in order[low:high] if other in before]
        rest = [other for other in order[low:high] if other not in before and other != task]
        order = [*order[:low], *first, task, *rest, *order[high:]]
        place = low + len(first)
        return place, _Staged(order, self.gauge.hills(order), sorted({*bounds, place, place + 1}))


def _mix(gauge: Gauge, staged: _Staged, others: Iterable[_Staged], limit_bytes: int) -> _Staged:
    """In every stage, take the order that holds least over time, of those that keep within the limit."""
    order = np.array(staged.order)
    starts = np.array(staged.bounds[:-1])
    stage = np.empty(len(order), np.int64)
    stage[order] = np.repeat(np.arange(len(starts)), np.diff(staged.bounds))
    peaks, sums = _by_stage(staged.hills, starts, limit_bytes)
    for other in others:
        tasks = np.array(other.order)
        tasks = tasks[np.argsort(stage[tasks], kind="stable")]
        other_peaks, other_sums = _by_stage(gauge.hills(tasks), starts, limit_bytes)
        better = (other_peaks < peaks) | ((other_peaks == peaks) & (other_sums < sums))
        order = np.where(np.repeat(better, np.diff(staged.bounds)), tasks, order)
        peaks, sums = np.where(better, other_peaks, peaks), np.where(better, other_sums, sums)
    return _Staged(order.tolist(), gauge.hills(order), staged.bounds)


def _by_stage(hills: Bytes, starts: Bytes, limit_bytes: int) -> tuple[Bytes, Bytes]:
    """The peak of each stage, as far as it is above the limit, and all that is in use in it over time."""
    return np.maximum(np.maximum.reduceat(hills, starts), limit_bytes), np.add.reduceat(hills, starts)
