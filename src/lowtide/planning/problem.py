"""A Problem: what planning needs to know of a step, and nothing else.

A step has thousands of nodes, but its memory is a few hundred large values. A *value* is a buffer: a tensor and all
that merely shows it under another shape or name. A *task* is a node that makes or reads a large value; small nodes
run whenever they can and are left alone, and what they make is always at hand. Variables, arguments and constants
are there throughout; they count in `base_bytes`.

What a compiler computes on the fly is no value either: who reads it *reads through* it what it is computed from.

Where a step runs on several devices, each has memory of its own: its *part* of the problem is what runs there. Parts
are written one after the other, as if they ran so, because no value of one is alive in another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lowtide.program.dtypes import RESOURCE, VARIANT
from lowtide.simulator.workload import ARGUMENT, COMPUTE, CONSTANT, READ, RETURN, Workload

# An instance in a course: task t itself, or ~t where it is computed again.
Instance = int


@dataclass(slots=True)
class Problem:
    """The tasks of a step in an order that is known to be legal, and the values between them."""

    reads: list[tuple[int, ...]]
    """The values that each task reads."""
    makes: list[tuple[int, ...]]
    """The values that each task makes."""
    takes: list[tuple[tuple[int, int], ...]]
    """Per task: (made, read): what it makes may take the place of what it reads, if nobody else needs that."""
    cost_us: list[float]
    workspace: list[int]
    """Bytes that a task borrows while it runs."""
    recomputable: list[bool]
    """Whether a task may run twice: it neither reads nor changes state."""
    sizes: list[int]
    """Bytes of each value."""
    lasting: list[bool]
    """Whether a value is a result: it stays until the step is over."""
    base_bytes: int = 0
    """What is there throughout, and what the small values take."""
    total_us: float = 0.0
    """The time of the whole step, small nodes too; the tasks' own time where it is not given."""
    nodes: list[int] = field(default_factory=list)
    """The node of each task in the graph that the problem was made from."""
    tensors: list[int] = field(default_factory=list)
    """The tensor that each value began as."""
    through: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Tensors that are computed on the fly, and the values that are read through each."""
    parts: list[int] = field(default_factory=lambda: [0])
    """The first task of each device."""

    def __len__(self) -> int:
        return len(self.reads)

    def part_of(self, task: int) -> int:
        """Which device a task runs on."""
        return bisect_right(self.parts, task) - 1

    def makers(self) -> list[int]:
        """The task that makes each value."""
        makers = [-1] * len(self.sizes)
        for task, made in enumerate(self.makes):
            for value in made:
                makers[value] = task
        return makers

    def readers(self) -> list[list[int]]:
        """The tasks that read each value, in their order."""
        readers: list[list[int]] = [[] for _ in self.sizes]
        for task, reads in enumerate(self.reads):
            for value in dict.fromkeys(reads):
                readers[value].append(task)
        return readers


@dataclass(slots=True)
class Flood:
    """What a course does to memory: the bytes in use while each of its instances runs."""

    bytes_in_use: npt.NDArray[np.int64]
    extra_us: float
    """Time spent on computing again."""
    taken_bytes: npt.NDArray[np.int64]
    """What each of its instances does not ask for, because it takes the place of something that it reads."""

    @property
    def peak_bytes(self) -> int:
        return int(self.bytes_in_use.max(initial=0))


def measure(problem: Problem, course: Sequence[Instance]) -> Flood:
    """The memory of a course: its tasks in order, some of them again.

    A task that runs again makes its values anew; whoever reads them later reads the new ones, and the old ones are
    gone after their last reader before that.
    """
    born, last, taken = _lives(problem, course)
    length = len(course)
    change = np.zeros(length + 1, np.int64)
    sizes = problem.sizes
    for value, start, end in zip(*born, last, strict=True):
        change[start] += sizes[value]
        change[end + 1] -= sizes[value]
    in_use = np.cumsum(change[:length]) + problem.base_bytes
    taken_bytes = np.zeros(length, np.int64)
    for position, size in taken:
        taken_bytes[position] += size
    in_use -= taken_bytes
    in_use += np.fromiter((problem.workspace[max(each, ~each)] for each in course), np.int64, length)
    extra = sum(problem.cost_us[~each] for each in course if each < 0)
    return Flood(in_use, extra, taken_bytes)


def _lives(
    problem: Problem, course: Sequence[Instance]
) -> tuple[tuple[list[int], list[int]], list[int], list[tuple[int, int]]]:
    """Which value is born where, when it is read last, and what is taken over in place of something new."""
    current = [-1] * len(problem.sizes)
    values: list[int] = []
    start: list[int] = []
    last: list[int] = []
    read: list[tuple[int, ...]] = []
    for position, instance in enumerate(course):
        task = max(instance, ~instance)
        read.append(tuple(current[value] for value in problem.reads[task]))
        for life in read[-1]:
            if life < 0:
                raise ValueError(f"task {task} reads a value that is not there at position {position}")
            last[life] = position
        for value in problem.makes[task]:
            current[value] = len(values)
            values.append(value)
            start.append(position)
            last.append(position)
    end = len(course) - 1
    for value, lasting in enumerate(problem.lasting):
        if lasting and current[value] >= 0:
            last[current[value]] = end
    taken = []
    for position, instance in enumerate(course):
        task = max(instance, ~instance)
        if problem.takes[task]:
            given: set[int] = set()
            place = dict(zip(problem.reads[task], read[position], strict=True))
            for made, source in problem.takes[task]:
                life = place[source]
                if source not in given and made not in given and last[life] == position and start[life] < position:
                    given |= {made, source}
                    taken.append((position, problem.sizes[made]))
    return (values, start), last, taken


def build_problem(
    work: Workload,
    order: Iterable[int],
    stateful: frozenset[str],
    smallest_bytes: int,
    base_bytes: int,
    fused: frozenset[int] = frozenset(),
    devices: Sequence[str] | None = None,
) -> Problem:
    """The problem of a graph whose nodes run in this order; `stateful` are the ops that must not run twice.

    `fused` nodes are computed on the fly wherever their results are read. `devices` says where each node runs, if not
    all of them run on the same.
    """
    orders: dict[str, list[int]] = {}
    for node in order:
        orders.setdefault(devices[node] if devices else "", []).append(node)
    return _Builder(work, stateful, smallest_bytes, base_bytes, fused).build(orders.values())


class _Builder:
    def __init__(
        self,
        work: Workload,
        stateful: frozenset[str],
        smallest_bytes: int,
        base_bytes: int,
        fused: frozenset[int],
    ) -> None:
        self.work = work
        self.stateful = stateful
        self.fused = fused
        self.smallest_bytes = smallest_bytes
        self.problem = Problem([], [], [], [], [], [], [], [], base_bytes)
        self.value_of: dict[int, int] = {}

    def build(self, orders: Iterable[list[int]]) -> Problem:
        self.problem.parts.clear()
        for order in orders:
            # What comes from another device is small beside what a device makes itself, and is not known here.
            self.value_of.clear()
            self.problem.parts.append(len(self.problem))
            for node in order:
                self._visit(node)
        fused_us = sum(self.work.cost_us[node] for node in self.fused)
        self.problem.total_us = sum(self.work.cost_us) - fused_us
        return self.problem

    def _visit(self, node: int) -> None:
        work, problem, value_of = self.work, self.problem, self.value_of
        role = work.role[node]
        if role in (ARGUMENT, CONSTANT, READ):
            return
        reads = tuple(dict.fromkeys(value for tensor in work.inputs[node] for value in self._seen(tensor)))
        if role == RETURN:
            for value in reads:
                problem.lasting[value] = True
            return
        if node in self.fused:
            if reads:
                problem.through |= dict.fromkeys(work.outputs[node], reads)
            return
        shared = {output: source for output, source, always in work.buffer_reuses[node] if always}
        made = []
        for tensor in work.outputs[node]:
            if tensor in shared:
                if shared[tensor] in value_of:
                    value_of[tensor] = value_of[shared[tensor]]
                elif shared[tensor] in problem.through:
                    problem.through[tensor] = problem.through[shared[tensor]]
            elif work.sizes[tensor] >= self.smallest_bytes and tensor not in work.unallocated[node]:
                made.append(tensor)
        if not made and (not reads or len(shared) == len(work.outputs[node]) > 0):
            return
        for tensor in made:
            value_of[tensor] = len(problem.sizes)
            problem.sizes.append(work.sizes[tensor])
            problem.lasting.append(False)
            problem.tensors.append(tensor)
        problem.nodes.append(node)
        problem.reads.append(reads)
        problem.makes.append(tuple(value_of[tensor] for tensor in made))
        problem.takes.append(
            tuple(
                (value_of[output], value_of[source])
                for output, source, always in work.buffer_reuses[node]
                if not always and output in value_of and source in value_of
            )
        )
        problem.cost_us.append(work.cost_us[node])
        problem.workspace.append(sum(work.temporaries[node]))
        problem.recomputable.append(role == COMPUTE and self._is_pure(node))

    def _seen(self, tensor: int) -> tuple[int, ...]:
        """The values that are read with a tensor."""
        value = self.value_of.get(tensor)
        return self.problem.through.get(tensor, ()) if value is None else (value,)

    def _is_pure(self, node: int) -> bool:
        work, graph = self.work, self.work.graph
        tensors = (*work.inputs[node], *work.outputs[node])
        return graph.ops[node] not in self.stateful and not any(
            graph.dtypes[tensor] in (RESOURCE, VARIANT) for tensor in tensors
        )
