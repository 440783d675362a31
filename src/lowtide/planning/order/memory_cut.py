"""Which tasks to run before a task, so that the least memory is in use while it runs: a minimum cut.

A set of tasks that can have run is closed: with a task it contains all that the task waits for. The closed set that
leaves the fewest bytes in use is a minimum cut between what must run before the task and what must run after it. No
order has less in use while the task runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from lowtide.planning.order.flow_network import SINK, SOURCE, UNLIMITED, FlowNetwork
from lowtide.planning.problem import PlanningProblem, TaskId, ValueId


def lowest_before(
    problem: PlanningProblem, task: TaskId, nearby: Sequence[TaskId], earlier: Set[TaskId]
) -> set[TaskId]:
    """Return which of the tasks nearby should run before this one; of several minimum cuts, the smallest set.

    `nearby` are the tasks whose position is open, and the task itself; `earlier` are the others that have run.
    """
    return _MemoryCut(problem, task, nearby, earlier).solve()


class _MemoryCut:
    """The flow network: tasks on the source's side have run, and the values across the cut are in use."""

    def __init__(self, problem: PlanningProblem, task: TaskId, nearby: Sequence[TaskId], earlier: Set[TaskId]) -> None:
        self.problem = problem
        self.task = task
        self.earlier = earlier
        self.nearby = set(nearby)
        self.needed = _reachable(problem.waits_for, task, self.nearby)
        later = _reachable(problem.followers, task, self.nearby)
        self.open = [other for other in nearby if other != task and other not in self.needed and other not in later]
        self.network = FlowNetwork()
        self.node_of = {other: self.network.add_node() for other in self.open}

    def solve(self) -> set[TaskId]:
        problem, node_of = self.problem, self.node_of
        touched = (value for other in self.open for value in (*problem.makes[other], *problem.reads[other]))
        for value in dict.fromkeys(touched):
            if value in problem.reads[self.task]:
                self._add_input(value)
            else:
                self._add_value(value)
        for other, node in node_of.items():
            for source in problem.waits_for[other]:
                if source in node_of:
                    self.network.add_edge(node, node_of[source], UNLIMITED)
        side = self.network.source_side()
        return self.needed | {other for other, node in node_of.items() if side[node]}

    def _has_run(self, other: TaskId) -> bool:
        return other in self.needed or (other not in self.nearby and other in self.earlier)

    def _add_value(self, value: ValueId) -> None:
        """Add a value, which is in use between its maker and its last reader."""
        problem, node_of = self.problem, self.node_of
        maker = problem.makers[value]
        if maker is None or self._has_run(maker):
            start = SOURCE
        elif maker in node_of:
            start = node_of[maker]
        else:
            return
        readers = problem.readers[value]
        if problem.lasting[value] or any(reader not in node_of and not self._has_run(reader) for reader in readers):
            if start != SOURCE:
                self.network.add_edge(start, SINK, problem.sizes[value])
            return
        self._hold(start, [node_of[reader] for reader in readers if reader in node_of], problem.sizes[value])

    def _add_input(self, value: ValueId) -> None:
        """Add an input of the task, which is in use in any case; once no other task reads it, its buffer is reused."""
        problem, node_of = self.problem, self.node_of
        others = [reader for reader in problem.readers[value] if reader != self.task]
        if problem.lasting[value] or any(reader not in node_of and not self._has_run(reader) for reader in others):
            return
        reused = max((problem.sizes[made] for made, source in problem.reuses[self.task] if source == value), default=0)
        self._hold(SOURCE, [node_of[reader] for reader in others if reader in node_of], reused)

    def _hold(self, start: int, readers: list[int], size: int) -> None:
        """Let the cut cost `size` if `start` is on the source's side and any reader is not."""
        if len(readers) == 1:
            self.network.add_edge(start, readers[0], size)
        elif readers:
            read = self.network.add_node()
            self.network.add_edge(start, read, size)
            for reader in readers:
                self.network.add_edge(read, reader, UNLIMITED)


def _reachable(edges: Sequence[Iterable[TaskId]], start: TaskId, within: set[TaskId]) -> set[TaskId]:
    """Return the tasks that can be reached from a task without leaving a set."""
    found: set[TaskId] = set()
    waiting = [start]
    while waiting:
        for other in edges[waiting.pop()]:
            if other in within and other not in found:
                found.add(other)
                waiting.append(other)
    return found
