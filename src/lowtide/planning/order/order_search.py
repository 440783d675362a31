"""From several orders of a step's tasks to one with a low peak.

List scheduling makes many orders out of a few. A minimum cut lowers the peak of each and splits the order into stages:
what runs before the peak, and what runs after it. Stages do not affect each other's memory, so the best known order of
each stage is taken, whichever order it comes from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.planning.memory_profile import Bytes, OrderProfiler
from lowtide.planning.order.list_scheduling import closest_legal_order, growing_last, shrinking_first
from lowtide.planning.order.memory_cut import lowest_before
from lowtide.planning.problem import PlanningProblem, TaskId
from lowtide.planning.tuning import TUNING


def find_low_peak_order(problem: PlanningProblem, preferred: Iterable[Sequence[TaskId]]) -> list[TaskId]:
    """Find a legal order of the tasks with a low peak, from orders that may be good ones."""
    if not len(problem):
        return []
    profiler = OrderProfiler(problem)
    starts = [
        _StagedOrder(order, profiler.bytes_per_task(order), [0, len(order)])
        for order in _starts(problem, list(preferred))
    ]
    starts.sort(key=_rank)
    lowered = _OrderImprover(problem, profiler).lower_all(starts)
    lowered.sort(key=_rank)
    limit = int(lowered[0].peak_bytes * (1 + TUNING.order_tie_share))
    mixed = [_mix(profiler, staged, [*starts, *lowered], limit) for staged in lowered[: TUNING.order_mixed]]
    return min([*lowered, *mixed], key=lambda each: (max(each.peak_bytes, limit), each.bytes_per_task.sum())).order


@dataclass(slots=True)
class _StagedOrder:
    """An order in stages: all tasks of one stage run before any of the next."""

    order: list[TaskId]
    bytes_per_task: Bytes
    bounds: list[int]
    """Where each stage begins, and where the last one ends."""

    @property
    def peak_bytes(self) -> int:
        return int(self.bytes_per_task.max())

    @property
    def peak_position(self) -> int:
        return int(self.bytes_per_task.argmax())


def _rank(staged: _StagedOrder) -> tuple[int, int]:
    """Compare orders by their peak, then by the sum of bytes over time."""
    return staged.peak_bytes, int(staged.bytes_per_task.sum())


def _starts(problem: PlanningProblem, preferred: list[Sequence[TaskId]]) -> list[list[TaskId]]:
    """Return the preferred orders, and what list scheduling makes of them."""
    orders = []
    for each in preferred:
        order = closest_legal_order(problem, each)
        early, late = shrinking_first(problem, order), growing_last(problem, order)
        orders += [order, early, late, growing_last(problem, early), shrinking_first(problem, late)]
    for each in preferred[:1]:
        order = closest_legal_order(problem, each)
        orders += [schedule(problem, order, smallest=True) for schedule in (shrinking_first, growing_last)]
    return [list(order) for order in dict.fromkeys(map(tuple, orders))]


class _OrderImprover:
    """Lowers the peaks of orders by minimum cuts, up to a number of cuts."""

    def __init__(self, problem: PlanningProblem, profiler: OrderProfiler) -> None:
        self.problem = problem
        self.profiler = profiler
        self.cuts_left = max(TUNING.order_cut_tasks // len(problem), TUNING.order_cuts)
        self.floor_bytes = 0
        """A lower bound of the peak of any order."""

    def lower_all(self, starts: Iterable[_StagedOrder]) -> list[_StagedOrder]:
        lowered: list[_StagedOrder] = []
        for start in starts:
            found = self.lower(start)
            lowered.append(found)
            # The best cut around the highest task, without regard to stages, bounds the peak of any order.
            unstaged = _StagedOrder(found.order, found.bytes_per_task, [0, len(found.order)])
            position, cut = self._cut(unstaged, found.peak_position)
            self.floor_bytes = max(self.floor_bytes, int(cut.bytes_per_task[position]))
            close_bytes = self.floor_bytes * (1 + TUNING.order_close_share)
            if self.cuts_left <= 0 or min(staged.peak_bytes for staged in lowered) <= close_bytes:
                break
        return lowered

    def lower(self, start: _StagedOrder) -> _StagedOrder:
        """Cut at the peak of an order repeatedly, and return the best order found.

        What runs before and after a cut stays so. The search ends when the peak is at a task that was cut before.
        """
        best = staged = start
        settled: set[TaskId] = set()
        while self.cuts_left > 0:
            task = staged.order[staged.peak_position]
            if task in settled:
                break
            settled.add(task)
            _, staged = self._cut(staged, staged.peak_position)
            best = min(best, staged, key=_rank)
        return best

    def _cut(self, staged: _StagedOrder, position: int) -> tuple[int, _StagedOrder]:
        """Run the tasks of a minimum cut before a task and the rest of its stage after it; return its new position."""
        self.cuts_left -= 1
        order, bounds = staged.order, staged.bounds
        task = order[position]
        above = bisect_right(bounds, position)
        low, high = bounds[above - 1], bounds[above]
        before = lowest_before(self.problem, task, order[low:high], set(order[:low]))
        first = [other for other in order[low:high] if other in before]
        rest = [other for other in order[low:high] if other not in before and other != task]
        order = [*order[:low], *first, task, *rest, *order[high:]]
        moved = low + len(first)
        return moved, _StagedOrder(order, self.profiler.bytes_per_task(order), sorted({*bounds, moved, moved + 1}))


def _mix(
    profiler: OrderProfiler, staged: _StagedOrder, others: Iterable[_StagedOrder], limit_bytes: int
) -> _StagedOrder:
    """Take for each stage the order with the smallest sum over time, of those within the limit."""
    order = np.array(staged.order)
    starts = np.array(staged.bounds[:-1])
    stage = np.empty(len(order), np.int64)
    stage[order] = np.repeat(np.arange(len(starts)), np.diff(staged.bounds))
    peaks, sums = _by_stage(staged.bytes_per_task, starts, limit_bytes)
    for other in others:
        tasks = np.array(other.order)
        tasks = tasks[np.argsort(stage[tasks], kind="stable")]
        other_peaks, other_sums = _by_stage(profiler.bytes_per_task(tasks), starts, limit_bytes)
        better = (other_peaks < peaks) | ((other_peaks == peaks) & (other_sums < sums))
        order = np.where(np.repeat(better, np.diff(staged.bounds)), tasks, order)
        peaks, sums = np.where(better, other_peaks, peaks), np.where(better, other_sums, sums)
    return _StagedOrder(order.tolist(), profiler.bytes_per_task(order), staged.bounds)


def _by_stage(bytes_per_task: Bytes, starts: Bytes, limit_bytes: int) -> tuple[Bytes, Bytes]:
    """Return the peak of each stage, or the limit if it is lower, and the sum of bytes over the stage."""
    peaks = np.maximum.reduceat(bytes_per_task, starts)
    return np.maximum(peaks, limit_bytes), np.add.reduceat(bytes_per_task, starts)
