"""Tasks: the nodes of a step that its memory hangs on, who waits for whom, and the values they pass on.

A *task* makes or reads a large value, as in a Problem. Other nodes run as soon as they can; they only say which task
has to wait for which. A *value* is a buffer: a tensor and all that merely shows it under another shape or name.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lowtide.simulator.workload import ARGUMENT, ASSIGN, CONSTANT, LIST, READ, RETURN, UPDATE, Workload

TaskId = int
ValueId = int

# A small node that waits for more tasks than this stands for them as a task of its own.
_MOST_SOURCES = 6
# The smallest values are left out, as many as together are at most this share of what the step takes.
_LEFT_OUT = 1 / 200


@dataclass(slots=True)
class Tasks:
    """The tasks of a step and the values between them."""

    nodes: list[int] = field(default_factory=list)
    """The node of each task."""
    before: list[tuple[TaskId, ...]] = field(default_factory=list)
    """The tasks that each task waits for."""
    after: list[list[TaskId]] = field(default_factory=list)
    """The tasks that wait for each task."""
    reads: list[tuple[ValueId, ...]] = field(default_factory=list)
    makes: list[tuple[ValueId, ...]] = field(default_factory=list)
    takes: list[tuple[tuple[ValueId, ValueId], ...]] = field(default_factory=list)
    """Per task: (made, read): what it makes takes the place of what it reads, if it is the last to read that."""
    workspace: list[int] = field(default_factory=list)
    """Bytes that a task borrows while it runs."""
    sizes: list[int] = field(default_factory=list)
    makers: list[TaskId | None] = field(default_factory=list)
    """The task that makes each value; None for a variable, which is there before."""
    readers: list[list[TaskId]] = field(default_factory=list)
    lasting: list[bool] = field(default_factory=list)
    """Whether a value stays until the step is over."""

    def __len__(self) -> int:
        return len(self.nodes)


def find_tasks(work: Workload, order: Sequence[int], step_bytes: int) -> Tasks:
    """The tasks of a step, by a legal order of its nodes; what the step takes by itself tells what is large."""
    finder = _Finder(work, _smallest(work, order, step_bytes))
    for node in order:
        finder.visit(node)
    return finder.finish()


def _smallest(work: Workload, order: Iterable[int], step_bytes: int) -> int:
    """From how many bytes on a value is large."""
    sizes = np.sort(np.array([work.sizes[tensor] for node in order for tensor in work.outputs[node]], np.int64))
    few = int(np.searchsorted(np.cumsum(sizes), int(step_bytes * _LEFT_OUT), "right"))
    return max(int(sizes[few]) if few < len(sizes) else step_bytes, 1)


class _Finder:
    """Walks the nodes in a legal order and writes down tasks and values."""

    def __init__(self, work: Workload, smallest_bytes: int) -> None:
        self.work = work
        self.smallest_bytes = smallest_bytes
        self.tasks = Tasks()
        self.producer = work.graph.producers()
        self.value_of: dict[int, ValueId] = {}
        """The value behind a tensor."""
        self.variables: dict[int, ValueId] = {}
        """The value that a variable is before the step."""
        self.sources: dict[int, tuple[TaskId, ...]] = {}
        """Per node: the tasks that whoever waits for it waits for."""
        self.updates: list[tuple[ValueId, TaskId]] = []

    def visit(self, node: int) -> None:
        work, value_of = self.work, self.value_of
        role, inputs = work.role[node], work.inputs[node]
        sources = self._sources(node)
        self.sources[node] = sources
        if role in (ARGUMENT, CONSTANT):
            return
        if role == READ and (variable := self._variable(inputs[0])) is not None:
            value_of[work.outputs[node][0]] = variable
            return
        reads = [] if self._is_known(node) else [value_of[tensor] for tensor in inputs if tensor in value_of]
        if role == RETURN:
            for value in reads:
                self.tasks.lasting[value] = True
            return
        made = self._made(node, role)
        handles = [tensor for tensor in inputs if tensor in work.variable_of] if role in (ASSIGN, UPDATE) else []
        changed = [variable for tensor in handles if (variable := self._variable(tensor)) is not None]
        workspace = sum(work.temporaries[node]) + sum(map(self._copied, handles))
        shows = not made and len(work.outputs[node]) > 0 and all(tensor in value_of for tensor in work.outputs[node])
        if (reads and not shows) or made or changed or workspace >= self.smallest_bytes:
            task = self._add(node, sources, reads, made, workspace)
            for variable in changed:
                self._change(task, variable, role, inputs)
        elif len(sources) > _MOST_SOURCES:
            self._add(node, sources, [], {}, 0)

    def _is_known(self, node: int) -> bool:
        """Whether what a node makes is told by the shapes alone: it does not keep what it reads waiting."""
        outputs = self.work.outputs[node]
        return len(outputs) > 0 and all(tensor in self.work.graph.values for tensor in outputs)

    def _sources(self, node: int) -> tuple[TaskId, ...]:
        """The tasks that a node waits for, without those that another of them waits for already."""
        found: set[TaskId] = set()
        for tensor in self.work.inputs[node]:
            found.update(self.sources[self.producer[tensor]])
        for control in self.work.graph.controls_of(node):
            found.update(self.sources[control])
        if len(found) > 1:
            before = self.tasks.before
            for task in sorted(found, reverse=True):
                if task in found:
                    found.difference_update(before[task])
        return tuple(sorted(found))

    def _variable(self, tensor: int) -> ValueId | None:
        """The value of the variable behind a handle, where it is a large one that is read without a copy."""
        work = self.work
        handle = work.variable_of.get(tensor)
        if handle is None or handle in work.sparse:
            return None
        size = work.graph.variable_bytes(handle)
        if size is None or size < self.smallest_bytes:
            return None
        if handle not in self.variables:
            self.variables[handle] = self._add_value(size, None, lasting=True)
        return self.variables[handle]

    def _copied(self, tensor: int) -> int:
        """What a change of the variable behind a handle copies: all of it, if it is read or written in parts."""
        handle = self.work.variable_of[tensor]
        return self.work.graph.variable_bytes(handle) or 0 if handle in self.work.sparse else 0

    def _made(self, node: int, role: int) -> dict[int, int]:
        """The large tensors that get a buffer of their own, and its size."""
        work, value_of = self.work, self.value_of
        shared = {output: source for output, source, always in work.buffer_reuses[node] if always}
        made = {}
        for tensor in work.outputs[node]:
            size = work.sizes[tensor]
            if role == LIST and work.graph.ops[node] == "TensorListFromTensor":
                size = work.sizes[work.inputs[node][0]]
            if tensor in shared:
                if shared[tensor] in value_of:
                    value_of[tensor] = value_of[shared[tensor]]
            elif size >= self.smallest_bytes and tensor not in work.unallocated[node]:
                made[tensor] = size
        return made

    def _add(
        self, node: int, sources: tuple[TaskId, ...], reads: list[ValueId], made: dict[int, int], workspace: int
    ) -> TaskId:
        tasks, value_of = self.tasks, self.value_of
        task = len(tasks)
        tasks.nodes.append(node)
        tasks.before.append(sources)
        tasks.workspace.append(workspace)
        tasks.reads.append(tuple(dict.fromkeys(reads)))
        for value in tasks.reads[-1]:
            tasks.readers[value].append(task)
        for tensor, size in made.items():
            value_of[tensor] = self._add_value(size, task)
        tasks.makes.append(tuple(value_of[tensor] for tensor in made))
        # Who reads a value twice at once is never its only holder.
        tasks.takes.append(
            tuple(
                (value_of[output], value_of[source])
                for output, source, always in self.work.buffer_reuses[node]
                if not always and output in made and source in value_of and reads.count(value_of[source]) == 1
            )
        )
        self.sources[node] = (task,)
        return task

    def _add_value(self, size: int, maker: TaskId | None, lasting: bool = False) -> ValueId:
        tasks = self.tasks
        tasks.sizes.append(size)
        tasks.makers.append(maker)
        tasks.readers.append([])
        tasks.lasting.append(lasting)
        return len(tasks.sizes) - 1

    def _change(self, task: TaskId, variable: ValueId, role: int, inputs: Sequence[int]) -> None:
        """An update wants the variable for itself; an assignment takes the new value and lets the old one go."""
        tasks = self.tasks
        if role == UPDATE:
            self.updates.append((variable, task))
            return
        if inputs[1] in self.value_of:
            tasks.lasting[self.value_of[inputs[1]]] = True
        tasks.lasting[variable] = False
        if task not in tasks.readers[variable]:
            tasks.readers[variable].append(task)
            tasks.reads[task] += (variable,)

    def finish(self) -> Tasks:
        tasks = self.tasks
        wishes: list[list[TaskId]] = [[] for _ in tasks.nodes]
        for variable, update in self.updates:
            wishes[update] += [reader for reader in tasks.readers[variable] if reader != update]
        _grant(tasks, wishes)
        tasks.after = [[] for _ in tasks.nodes]
        for task, before in enumerate(tasks.before):
            for source in before:
                tasks.after[source].append(task)
        return tasks


def _grant(tasks: Tasks, wishes: list[list[TaskId]]) -> None:
    """Let updates wait until nobody reads the old variable, which would be copied else, where that is possible."""
    count = len(tasks)
    waiting = [len(before) for before in tasks.before]
    wishing = [len(wish) for wish in wishes]
    told: list[list[TaskId]] = [[] for _ in range(count)]
    hoped: list[list[TaskId]] = [[] for _ in range(count)]
    for task in range(count):
        for source in tasks.before[task]:
            told[source].append(task)
        for source in wishes[task]:
            hoped[source].append(task)
    ready = [task for task in range(count) if not waiting[task] and not wishing[task]]
    ready.reverse()
    stuck = [task for task in range(count) if not waiting[task] and wishing[task]]
    position = [count] * count
    done = 0
    while done < count:
        # Only where all others wait for somebody whose wish cannot be granted, it has to run with a copy.
        task = ready.pop() if ready else heapq.heappop(stuck)
        if position[task] < count:
            continue
        position[task] = done
        done += 1
        for other in told[task]:
            waiting[other] -= 1
            if not waiting[other]:
                if wishing[other] <= 0:
                    ready.append(other)
                else:
                    heapq.heappush(stuck, other)
        for other in hoped[task]:
            wishing[other] -= 1
            if not wishing[other] and not waiting[other] and position[other] == count:
                ready.append(other)
    for task, wish in enumerate(wishes):
        granted = [source for source in wish if position[source] < position[task]]
        if granted:
            tasks.before[task] = tuple(sorted({*tasks.before[task], *granted}))
