"""The planning problem of a step whose order is open: which task waits for which, and when variables are freed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

from lowtide.planning.problem import PlanningProblem, ProblemBuilder, TaskId, ValueId
from lowtide.planning.tuning import TUNING
from lowtide.simulator.workload import ASSIGN, LIST, UPDATE, Workload


def build_order_problem(work: Workload, order: Sequence[int], step_bytes: int) -> PlanningProblem:
    """Build the problem of a step from a legal order of its nodes; `step_bytes` is what the step allocates."""
    builder = _OrderProblemBuilder(work, _smallest_bytes(work, order, step_bytes))
    for node in order:
        builder.visit(node)
    return builder.finish()


def _smallest_bytes(work: Workload, order: Iterable[int], step_bytes: int) -> int:
    """Return the size from which on a value is large."""
    sizes = np.sort(np.array([work.sizes[tensor] for node in order for tensor in work.outputs[node]], np.int64))
    ignored = int(np.searchsorted(np.cumsum(sizes), int(step_bytes * TUNING.order_ignored_share), "right"))
    return max(int(sizes[ignored]) if ignored < len(sizes) else step_bytes, 1)


class _OrderProblemBuilder(ProblemBuilder):
    """Also follows dependencies through small nodes, and treats large variables as values."""

    def __init__(self, work: Workload, smallest_bytes: int) -> None:
        super().__init__(work, smallest_bytes)
        self.producer = work.graph.producers()
        self.variables: dict[int, ValueId] = {}
        """The value of each variable before the step, by handle."""
        self.sources: dict[int, tuple[TaskId, ...]] = {}
        """Per node: the tasks that a node waits for if it waits for this one."""
        self.updates: list[tuple[ValueId, TaskId]] = []

    def visit(self, node: int) -> None:
        self.sources[node] = self._sources(node)
        super().visit(node)

    def _sources(self, node: int) -> tuple[TaskId, ...]:
        """Return the tasks that a node waits for, except those that another of them waits for."""
        found: set[TaskId] = set()
        for tensor in self.work.inputs[node]:
            found.update(self.sources[self.producer[tensor]])
        for control in self.work.graph.controls_of(node):
            found.update(self.sources[control])
        if len(found) > 1:
            for task in sorted(found, reverse=True):
                if task in found:
                    found.difference_update(self.problem.waits_for[task])
        return tuple(sorted(found))

    def skips_read(self, node: int) -> bool:
        variable = self._variable(self.work.inputs[node][0])
        if variable is None:
            return False
        self.value_of[self.work.outputs[node][0]] = variable
        return True

    def values_read(self, node: int) -> list[ValueId]:
        outputs = self.work.outputs[node]
        if len(outputs) > 0 and all(tensor in self.work.graph.values for tensor in outputs):
            # The shapes alone determine the result: the node does not read its inputs' data.
            return []
        return super().values_read(node)

    def output_bytes(self, node: int, tensor: int) -> int:
        work = self.work
        if work.role[node] == LIST and work.graph.ops[node] == "TensorListFromTensor":
            return work.sizes[work.inputs[node][0]]
        return work.sizes[tensor]

    def visit_compute(self, node: int, reads: list[ValueId], made: dict[int, int]) -> None:
        work, outputs = self.work, self.work.outputs[node]
        changes_state = work.role[node] in (ASSIGN, UPDATE)
        handles = [tensor for tensor in work.inputs[node] if tensor in work.variable_of] if changes_state else []
        changed = [variable for tensor in handles if (variable := self._variable(tensor)) is not None]
        workspace = sum(work.temporaries[node]) + sum(map(self._copied_bytes, handles))
        is_view = not made and len(outputs) > 0 and all(tensor in self.value_of for tensor in outputs)
        if (reads and not is_view) or made or changed or workspace >= self.smallest_bytes:
            task = self.add_task(node, reads, made, workspace)
            for variable in changed:
                self._change(task, variable, node)
        elif len(self.sources[node]) > TUNING.order_sources:
            # An empty task replaces the many tasks that the node waits for.
            self.add_task(node, [], {}, 0)

    def can_reuse(self, value: ValueId, reads: list[ValueId]) -> bool:
        # A node that reads a value twice never holds the only reference to it.
        return reads.count(value) == 1

    def add_task(self, node: int, reads: list[ValueId], made: dict[int, int], workspace: int) -> TaskId:
        task = super().add_task(node, reads, made, workspace)
        self.problem.waits_for.append(self.sources[node])
        self.sources[node] = (task,)
        return task

    def _variable(self, tensor: int) -> ValueId | None:
        """Return the value of the variable behind a handle; None if it is small or read by copying."""
        work = self.work
        handle = work.variable_of.get(tensor)
        if handle is None or handle in work.sparse:
            return None
        size = work.graph.variable_bytes(handle)
        if size is None or size < self.smallest_bytes:
            return None
        if handle not in self.variables:
            self.variables[handle] = self.add_value(handle, size, lasting=True)
        return self.variables[handle]

    def _copied_bytes(self, tensor: int) -> int:
        """Return what a change of a variable copies: all of it, if it is read or written in parts."""
        handle = self.work.variable_of[tensor]
        return self.work.graph.variable_bytes(handle) or 0 if handle in self.work.sparse else 0

    def _change(self, task: TaskId, variable: ValueId, node: int) -> None:
        """Record the change of a variable: an update is in place; an assignment adopts the new value's buffer."""
        problem = self.problem
        if self.work.role[node] == UPDATE:
            self.updates.append((variable, task))
            return
        value = self.work.inputs[node][1]
        if value in self.value_of:
            problem.lasting[self.value_of[value]] = True
        problem.lasting[variable] = False
        if variable not in problem.reads[task]:
            problem.reads[task] += (variable,)

    def finish(self) -> PlanningProblem:
        problem = self.problem
        preferred: list[list[TaskId]] = [[] for _ in problem.nodes]
        for variable, update in self.updates:
            preferred[update] += [reader for reader in problem.readers[variable] if reader != update]
        _delay_updates(problem, preferred)
        return problem


def _delay_updates(problem: PlanningProblem, preferred: list[list[TaskId]]) -> None:
    """Let each update wait for the readers of the old variable, where that causes no cycle.

    An update that runs before a reader has to copy the variable. `preferred` lists for each task the tasks that it
    should wait for in addition.
    """
    count = len(problem)
    required_left = [len(sources) for sources in problem.waits_for]
    preferred_left = [len(sources) for sources in preferred]
    required_by: list[list[TaskId]] = [[] for _ in range(count)]
    preferred_by: list[list[TaskId]] = [[] for _ in range(count)]
    for task in range(count):
        for source in problem.waits_for[task]:
            required_by[source].append(task)
        for source in preferred[task]:
            preferred_by[source].append(task)
    ready = [task for task in range(count) if not required_left[task] and not preferred_left[task]]
    ready.reverse()
    blocked = [task for task in range(count) if not required_left[task] and preferred_left[task]]
    position = [count] * count
    done = 0
    while done < count:
        # A task that could run runs before its preferred sources only where all other tasks wait for it.
        task = ready.pop() if ready else heapq.heappop(blocked)
        if position[task] < count:
            continue
        position[task] = done
        done += 1
        for other in required_by[task]:
            required_left[other] -= 1
            if not required_left[other]:
                if preferred_left[other] <= 0:
                    ready.append(other)
                else:
                    heapq.heappush(blocked, other)
        for other in preferred_by[task]:
            preferred_left[other] -= 1
            if not preferred_left[other] and not required_left[other] and position[other] == count:
                ready.append(other)
    for task, sources in enumerate(preferred):
        possible = [source for source in sources if position[source] < position[task]]
        if possible:
            problem.waits_for[task] = tuple(sorted({*problem.waits_for[task], *possible}))
