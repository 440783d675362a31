"""Sweeps: an order of tasks is gone through once, and what lowers memory is moved early, or what raises it late."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence

from lowtide.planning.order.tasks import TaskId, Tasks, ValueId


def in_order(tasks: Tasks, wish: Sequence[TaskId]) -> list[TaskId]:
    """The legal order that is closest to the wish: of those that can run, the first runs."""
    waiting = [len(before) for before in tasks.before]
    place = _places(wish)
    ready = [(place[task], task) for task in range(len(tasks)) if not waiting[task]]
    heapq.heapify(ready)
    order = []
    while ready:
        task = heapq.heappop(ready)[1]
        order.append(task)
        for other in tasks.after[task]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (place[other], other))
    return order


def shrinking_first(tasks: Tasks, wish: Sequence[TaskId], smallest: bool = False) -> list[TaskId]:
    """Run whatever lowers memory as soon as it can; else go on as wished, or with what raises it least."""
    return _Forward(tasks, wish, smallest).run()


def growing_last(tasks: Tasks, wish: Sequence[TaskId], smallest: bool = False) -> list[TaskId]:
    """Run whatever raises memory as late as it can: the same sweep through time backwards."""
    order = _Backward(tasks, wish[::-1], smallest).run()
    order.reverse()
    return order


def _places(wish: Sequence[TaskId]) -> list[int]:
    place = [0] * len(wish)
    for position, task in enumerate(wish):
        place[task] = position
    return place


class _Sweep(ABC):
    """One way through the tasks, by what each adds to memory at the time."""

    def __init__(self, tasks: Tasks, wish: Sequence[TaskId], smallest: bool) -> None:
        self.tasks = tasks
        self.place = _places(wish)
        self.smallest = smallest
        self.ready: list[tuple[int, int, int, TaskId]] = []
        self.waiting: list[int] = []
        self.told: Sequence[Sequence[TaskId]] = ()
        self.growth: list[int] = []
        self.done = [False] * len(tasks)

    def run(self) -> list[TaskId]:
        tasks, waiting, done = self.tasks, self.waiting, self.done
        for task in range(len(tasks)):
            if not waiting[task]:
                self._offer(task)
        order = []
        while self.ready:
            task = heapq.heappop(self.ready)[-1]
            if done[task]:
                continue
            done[task] = True
            order.append(task)
            for value in tasks.reads[task]:
                if not tasks.lasting[value]:
                    self._touch(value)
            for other in self.told[task]:
                waiting[other] -= 1
                if not waiting[other]:
                    self._offer(other)
        return order

    def _offer(self, task: TaskId) -> None:
        growth, place = self.growth[task], self.place[task]
        # Among what lowers memory, the most comes first.
        first = growth if growth < 0 or self.smallest else 0
        heapq.heappush(self.ready, (0 if growth < 0 else 1, first, place, task))

    def _lower(self, task: TaskId, size: int) -> None:
        self.growth[task] -= size
        if not self.waiting[task]:
            self._offer(task)

    @abstractmethod
    def _touch(self, value: ValueId) -> None:
        """One task less stands between a value and its end."""


class _Forward(_Sweep):
    """A value comes with its maker and goes with the last of its readers."""

    def __init__(self, tasks: Tasks, wish: Sequence[TaskId], smallest: bool) -> None:
        super().__init__(tasks, wish, smallest)
        self.waiting = [len(before) for before in tasks.before]
        self.told = tasks.after
        self.left = [len(readers) for readers in tasks.readers]
        self.growth = [
            sum(tasks.sizes[value] for value in made if tasks.readers[value] or tasks.lasting[value])
            for made in tasks.makes
        ]
        for value, readers in enumerate(tasks.readers):
            if len(readers) == 1 and not tasks.lasting[value]:
                self.growth[readers[0]] -= tasks.sizes[value]

    def _touch(self, value: ValueId) -> None:
        self.left[value] -= 1
        if self.left[value] == 1:
            last = next(reader for reader in self.tasks.readers[value] if not self.done[reader])
            self._lower(last, self.tasks.sizes[value])


class _Backward(_Sweep):
    """Seen from the end, a value comes with the first of its readers and goes with its maker."""

    def __init__(self, tasks: Tasks, wish: Sequence[TaskId], smallest: bool) -> None:
        super().__init__(tasks, wish, smallest)
        self.waiting = [len(after) for after in tasks.after]
        self.told = tasks.before
        self.seen = [False] * len(tasks.sizes)
        self.growth = [
            sum(tasks.sizes[value] for value in reads if not tasks.lasting[value])
            - sum(tasks.sizes[value] for value in made if tasks.readers[value] or tasks.lasting[value])
            for reads, made in zip(tasks.reads, tasks.makes, strict=True)
        ]

    def _touch(self, value: ValueId) -> None:
        if self.seen[value]:
            return
        self.seen[value] = True
        for reader in self.tasks.readers[value]:
            if not self.done[reader]:
                self._lower(reader, self.tasks.sizes[value])
