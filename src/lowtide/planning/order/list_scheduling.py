"""List scheduling: one pass over the tasks, which runs early what frees memory, or late what allocates it."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence

from lowtide.planning.problem import PlanningProblem, TaskId, ValueId


def closest_legal_order(problem: PlanningProblem, preferred: Sequence[TaskId]) -> list[TaskId]:
    """Return the legal order closest to the preferred one: of the ready tasks, the first runs."""
    waiting = [len(sources) for sources in problem.waits_for]
    position = _positions(preferred)
    ready = [(position[task], task) for task in range(len(problem)) if not waiting[task]]
    heapq.heapify(ready)
    order = []
    while ready:
        task = heapq.heappop(ready)[1]
        order.append(task)
        for other in problem.followers[task]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (position[other], other))
    return order


def shrinking_first(problem: PlanningProblem, preferred: Sequence[TaskId], smallest: bool = False) -> list[TaskId]:
    """Run what frees memory as soon as possible; else follow the preferred order, or take what allocates least."""
    return _ForwardPass(problem, preferred, smallest).run()


def growing_last(problem: PlanningProblem, preferred: Sequence[TaskId], smallest: bool = False) -> list[TaskId]:
    """Run what allocates memory as late as possible: the same pass backwards in time."""
    order = _BackwardPass(problem, preferred[::-1], smallest).run()
    order.reverse()
    return order


def _positions(order: Sequence[TaskId]) -> list[int]:
    positions = [0] * len(order)
    for position, task in enumerate(order):
        positions[task] = position
    return positions


class _ListScheduler(ABC):
    """One pass over the tasks, by how much each would change the memory in use."""

    def __init__(self, problem: PlanningProblem, preferred: Sequence[TaskId], smallest: bool) -> None:
        self.problem = problem
        self.position = _positions(preferred)
        self.smallest = smallest
        self.ready: list[tuple[int, int, int, TaskId]] = []
        self.waiting: list[int] = []
        self.released: Sequence[Sequence[TaskId]] = ()
        """The tasks that each task releases."""
        self.growth: list[int] = []
        self.done = [False] * len(problem)

    def run(self) -> list[TaskId]:
        problem, waiting, done = self.problem, self.waiting, self.done
        for task in range(len(problem)):
            if not waiting[task]:
                self._push(task)
        order = []
        while self.ready:
            task = heapq.heappop(self.ready)[-1]
            if done[task]:
                continue
            done[task] = True
            order.append(task)
            for value in problem.reads[task]:
                if not problem.lasting[value]:
                    self._update_value(value)
            for other in self.released[task]:
                waiting[other] -= 1
                if not waiting[other]:
                    self._push(other)
        return order

    def _push(self, task: TaskId) -> None:
        growth, position = self.growth[task], self.position[task]
        # Of the tasks that free memory, the one that frees most comes first.
        first = growth if growth < 0 or self.smallest else 0
        heapq.heappush(self.ready, (0 if growth < 0 else 1, first, position, task))

    def _reduce_growth(self, task: TaskId, size: int) -> None:
        self.growth[task] -= size
        if not self.waiting[task]:
            self._push(task)

    @abstractmethod
    def _update_value(self, value: ValueId) -> None:
        """Note that one more reader of a value is done."""


class _ForwardPass(_ListScheduler):
    """A value is allocated by its maker and freed by its last reader."""

    def __init__(self, problem: PlanningProblem, preferred: Sequence[TaskId], smallest: bool) -> None:
        super().__init__(problem, preferred, smallest)
        sizes, readers_of, lasting = problem.sizes, problem.readers, problem.lasting
        self.waiting = [len(sources) for sources in problem.waits_for]
        self.released = problem.followers
        self.left = [len(readers) for readers in readers_of]
        self.growth = [
            sum(sizes[value] for value in made if readers_of[value] or lasting[value]) for made in problem.makes
        ]
        for value, readers in enumerate(readers_of):
            if len(readers) == 1 and not lasting[value]:
                self.growth[readers[0]] -= sizes[value]

    def _update_value(self, value: ValueId) -> None:
        self.left[value] -= 1
        if self.left[value] == 1:
            last = next(reader for reader in self.problem.readers[value] if not self.done[reader])
            self._reduce_growth(last, self.problem.sizes[value])


class _BackwardPass(_ListScheduler):
    """Backwards in time, a value is allocated by its first reader and freed by its maker."""

    def __init__(self, problem: PlanningProblem, preferred: Sequence[TaskId], smallest: bool) -> None:
        super().__init__(problem, preferred, smallest)
        sizes, readers_of, lasting = problem.sizes, problem.readers, problem.lasting
        self.waiting = [len(followers) for followers in problem.followers]
        self.released = problem.waits_for
        self.allocated = [False] * len(sizes)
        self.growth = [
            sum(sizes[value] for value in reads if not lasting[value])
            - sum(sizes[value] for value in made if readers_of[value] or lasting[value])
            for reads, made in zip(problem.reads, problem.makes, strict=True)
        ]

    def _update_value(self, value: ValueId) -> None:
        if self.allocated[value]:
            return
        self.allocated[value] = True
        for reader in self.problem.readers[value]:
            if not self.done[reader]:
                self._reduce_growth(reader, self.problem.sizes[value])
