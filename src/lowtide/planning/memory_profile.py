"""The memory profile of a schedule: the bytes in use while each of its tasks runs.

Every profile is the sum of lifetimes: `bytes_in_use` adds them up. What differs is how the lifetimes are found. An
order runs each task once, and many orders are compared (`OrderProfiler`); a schedule may rematerialize
(`profile_schedule`); and the remat search keeps the lifetimes of a schedule up to date (`ScheduleState`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.planning.problem import Instance, PlanningProblem, TaskId

Bytes = npt.NDArray[np.int64]


def bytes_in_use(
    first: Sequence[int] | Bytes, last: Sequence[int] | Bytes, sizes: Sequence[int] | Bytes, length: int
) -> Bytes:
    """Return the bytes alive at each of `length` positions: each value from its first to its last one, inclusive."""
    allocated = np.bincount(np.asarray(first, np.int64), sizes, length)
    freed = np.bincount(np.asarray(last, np.int64) + 1, sizes, length)
    return np.cumsum((allocated[:length] - freed[:length]).astype(np.int64))


@dataclass(slots=True)
class MemoryProfile:
    """The memory and the extra time of a schedule."""

    bytes_in_use: Bytes
    """While each instance runs."""
    extra_us: float
    """Time spent on rematerialization."""
    reused_bytes: Bytes
    """What each instance does not allocate, because its output reuses the buffer of an input."""

    @property
    def peak_bytes(self) -> int:
        return int(self.bytes_in_use.max(initial=0))


def profile_schedule(problem: PlanningProblem, schedule: Sequence[Instance]) -> MemoryProfile:
    """Return the memory profile of a schedule: its tasks in order, some of them rematerialized.

    A task that runs again makes its values anew. Later readers read the new ones; the old ones are freed after their
    last reader before that.
    """
    tasks = [max(instance, ~instance) for instance in schedule]
    current: list[int | None] = [None] * len(problem.sizes)
    values: list[int] = []
    first: list[int] = []
    last: list[int] = []
    read: list[dict[int, int]] = []
    """Per position: the index of the lifetime that each value read has at that time."""
    for position, task in enumerate(tasks):
        read.append({})
        for value in problem.reads[task]:
            lifetime = current[value]
            if lifetime is None:
                raise ValueError(f"task {task} reads a value that is not there at position {position}")
            read[-1][value] = lifetime
            last[lifetime] = position
        for value in problem.makes[task]:
            current[value] = len(values)
            values.append(value)
            first.append(position)
            last.append(position)
    for value, lasting in enumerate(problem.lasting):
        if lasting and (lifetime := current[value]) is not None:
            last[lifetime] = len(schedule) - 1
    reused = np.zeros(len(schedule), np.int64)
    for position, task in enumerate(tasks):
        given: set[int] = set()
        for made, source in problem.reuses[task]:
            lifetime = read[position][source]
            ends_here = last[lifetime] == position and first[lifetime] < position
            if ends_here and source not in given and made not in given:
                given |= {made, source}
                reused[position] += problem.sizes[made]
    in_use = bytes_in_use(first, last, [problem.sizes[value] for value in values], len(schedule))
    in_use += problem.base_bytes - reused + np.array([problem.workspace[task] for task in tasks], np.int64)
    return MemoryProfile(in_use, sum(problem.cost_us[~each] for each in schedule if each < 0), reused)


class OrderProfiler:
    """Computes the profiles of many orders of one problem; memory that is in use throughout is not counted."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.count = len(problem)
        self.workspace = np.array(problem.workspace, np.int64)
        all_makers, lasting = problem.makers, problem.lasting
        # A variable that is only read and updated is there throughout.
        values = [value for value, maker in enumerate(all_makers) if maker is not None or not lasting[value]]
        makers = [all_makers[value] for value in values]
        self.sizes = np.array([problem.sizes[value] for value in values], np.int64)
        self.lasting = np.array([lasting[value] for value in values], bool)
        self.maker = np.array([self.count if maker is None else maker for maker in makers], np.int64)
        """The task that makes each value. One more task, which runs first, makes the variables."""
        touching = [[maker, *problem.readers[value]] for maker, value in zip(self.maker, values, strict=True)]
        self.touching = np.array([task for group in touching for task in group], np.int64)
        self.first = np.cumsum([0, *map(len, touching)], dtype=np.int64)[:-1]
        index_of = {value: index for index, value in enumerate(values)}
        reuses = [
            (task, index_of[source], problem.sizes[made])
            for task, pairs in enumerate(problem.reuses)
            for made, source in pairs
            if source in index_of and all_makers[source] is not None
        ]
        self.reuser, self.source, self.reused = np.array(reuses, np.int64).reshape(-1, 3).T

    def bytes_per_task(self, order: Sequence[TaskId] | Bytes) -> Bytes:
        """Return the bytes in use while each task runs, one after the other."""
        count, order = self.count, np.asarray(order, np.int64)
        position = np.zeros(count + 1, np.int64)
        position[order] = np.arange(count)
        workspace: Bytes = self.workspace[order]
        if not len(self.sizes):
            return workspace
        last = np.maximum.reduceat(position[self.touching], self.first)
        last[self.lasting] = count
        in_use = workspace + bytes_in_use(position[self.maker], last, self.sizes, count)
        # The last reader of a value may reuse its buffer; a task that may reuse one of two buffers reuses one.
        reused = np.zeros(count, np.int64)
        reuser = position[self.reuser]
        np.maximum.at(reused, reuser, np.where(last[self.source] == reuser, self.reused, 0))
        return in_use - reused
