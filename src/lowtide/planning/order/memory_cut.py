"""What should have run before a task: the set of tasks after which the least is in use while it runs.

Sets that can have run are closed: with a task they hold all that it waits for. Of these, the one that leaves the
fewest bytes is a minimum cut between what has to come before the task and what has to come after it. No order has
less in use while that task runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from lowtide.planning.order.flow_network import SINK, SOURCE, UNLIMITED, Network
from lowtide.planning.order.tasks import TaskId, Tasks, ValueId


def lowest_before(tasks: Tasks, task: TaskId, nearby: Sequence[TaskId], earlier: Set[TaskId]) -> set[TaskId]:
    """Which of the tasks nearby should run before this one; among equals, as few as possible.

    `nearby` are the tasks whose place is open, with the task itself; of the others `earlier` are those that have run.
    """
    return _Cut(tasks, task, nearby, earlier).solve()


class _Cut:
    """The question as a network: who is on the source's side has run, and what is cut through is held."""

    def __init__(self, tasks: Tasks, task: TaskId, nearby: Sequence[TaskId], earlier: Set[TaskId]) -> None:
        self.tasks = tasks
        self.task = task
        self.earlier = earlier
        self.around = set(nearby)
        self.needed = _reach(tasks.before, task, self.around)
        later = _reach(tasks.after, task, self.around)
        self.open = [other for other in nearby if other != task and other not in self.needed and other not in later]
        self.network = Network()
        self.places = {other: self.network.add() for other in self.open}

    def solve(self) -> set[TaskId]:
        tasks, places, link = self.tasks, self.places, self.network.link
        touched = (value for other in self.open for value in (*tasks.makes[other], *tasks.reads[other]))
        for value in dict.fromkeys(touched):
            if value in tasks.reads[self.task]:
                self._add_input(value)
            else:
                self._add_value(value)
        for other, place in places.items():
            for source in tasks.before[other]:
                if source in places:
                    link(place, places[source], UNLIMITED)
        side = self.network.source_side()
        return self.needed | {other for other, place in places.items() if side[place]}

    def _has_run(self, other: TaskId) -> bool:
        return other in self.needed or (other not in self.around and other in self.earlier)

    def _add_value(self, value: ValueId) -> None:
        """A value is held between its maker and the last of its readers."""
        tasks, places = self.tasks, self.places
        maker = tasks.makers[value]
        if maker is None or self._has_run(maker):
            start = SOURCE
        elif maker in places:
            start = places[maker]
        else:
            return
        readers = tasks.readers[value]
        if tasks.lasting[value] or any(reader not in places and not self._has_run(reader) for reader in readers):
            if start != SOURCE:
                self.network.link(start, SINK, tasks.sizes[value])
            return
        self._hold(start, [places[reader] for reader in readers if reader in places], tasks.sizes[value])

    def _add_input(self, value: ValueId) -> None:
        """What the task reads is there in any case, but the task may take its place once the others have read it."""
        tasks, places = self.tasks, self.places
        others = [reader for reader in tasks.readers[value] if reader != self.task]
        if tasks.lasting[value] or any(reader not in places and not self._has_run(reader) for reader in others):
            return
        taken = max((tasks.sizes[made] for made, source in tasks.takes[self.task] if source == value), default=0)
        self._hold(SOURCE, [places[reader] for reader in others if reader in places], taken)

    def _hold(self, start: int, readers: list[int], size: int) -> None:
        if len(readers) == 1:
            self.network.link(start, readers[0], size)
        elif readers:
            read = self.network.add()
            self.network.link(start, read, size)
            for reader in readers:
                self.network.link(read, reader, UNLIMITED)


def _reach(edges: Sequence[Iterable[TaskId]], start: TaskId, around: set[TaskId]) -> set[TaskId]:
    """What can be reached from a task without leaving the surroundings."""
    found: set[TaskId] = set()
    waiting = [start]
    while waiting:
        for other in edges[waiting.pop()]:
            if other in around and other not in found:
                found.add(other)
                waiting.append(other)
    return found
