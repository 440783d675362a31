"""Holdings: who holds which buffer while a step runs.

Every tensor between two nodes is a reference to a buffer. A buffer is given back when its last holder lets go:
the nodes that still have to read it, the variable that owns it, a tensor list that contains it, or the caller.
A kernel may take over an input's buffer for its output only when it is the sole holder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide.program.dtypes import RESOURCE
from lowtide.simulator.tensor_lists import start_list
from lowtide.simulator.workload import (
    ARGUMENT,
    ASSIGN,
    CONSTANT,
    ENTER,
    EXIT,
    LIST,
    MERGE,
    NEXT,
    NOTHING,
    READ,
    RETURN,
    SWITCH,
    UPDATE,
    Workload,
)

BufferId = int


@dataclass(slots=True)
class Schedule:
    """The stream of allocations and frees of one step.

    An event `i` allocates buffer i, `~i` frees it, as `BfcAllocator.replay` takes them.
    """

    events: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    """The node that caused each event."""
    sizes: list[int] = field(default_factory=list)
    """Requested bytes of each buffer."""
    owners: list[int] = field(default_factory=list)
    """What a buffer holds: a tensor id, or -1 - node for memory that a kernel borrows or a variable's copy."""
    handles: set[BufferId] = field(default_factory=set)
    """Buffers of resource handles themselves, whose owner is the variable behind them."""
    before: list[BufferId] = field(default_factory=list)
    """Buffers that exist before the step: variables, arguments, constants."""
    first_constant: BufferId = 0
    """The first of them that a constant has; the rest are constants' too."""
    renewed: dict[BufferId, BufferId] = field(default_factory=dict)
    """Variables that end the step in another buffer than they began it in: from the old to the new.

    The new one may be a constant's, shared with it until the next update.
    """
    order: list[int] = field(default_factory=list)
    """The nodes in the order in which they finished."""
    duration_us: float = 0.0
    """Estimated length of the step."""
    guesses: set[int] = field(default_factory=set)
    """Switch nodes whose branch, or loop's end, could not be told from the graph."""


class Holdings:
    """The buffers of one simulated step; `start` and `finish` are called around each node's kernel."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.schedule = Schedule()
        self.holders: list[int] = []
        self.contents: dict[BufferId, list[BufferId | None]] = {}
        self.reads: dict[BufferId, int] = {}
        self.variables: dict[int, BufferId] = {}
        self.constants: dict[int, BufferId] = {}
        self.returned: list[BufferId] = []
        self.borrowed: dict[tuple[int, int], list[BufferId]] = {}
        self._adopt_state()

    def _adopt_state(self) -> None:
        """What is there before the step, in the order in which a process makes it.

        Variables come first, then the batch; constants are made when the function runs for the first time.
        """
        work, graph = self.work, self.work.graph
        arguments = [node for node, role in enumerate(work.role) if role == ARGUMENT]
        arguments.sort(key=lambda node: graph.attributes[node].get("index", 0))
        handles = dict.fromkeys(graph.first_output[node] for node in arguments) | dict.fromkeys(
            work.variable_of.values()
        )
        for handle in handles:
            size = graph.variable_bytes(handle)
            if size is not None:
                self.variables[handle] = self._create(size, handle)
        constants = [node for node, role in enumerate(work.role) if role == CONSTANT and node not in work.left_over]
        for nodes in (arguments, constants):
            self.schedule.first_constant = len(self.holders)
            for tensor in (tensor for node in nodes for tensor in work.outputs[node]):
                buffer = self.constants[tensor] = self._create(work.sizes[tensor], tensor)
                if graph.dtypes[tensor] == RESOURCE:
                    self.schedule.handles.add(buffer)
        self.variables_before = dict(self.variables)
        self.schedule.before = list(range(len(self.holders)))

    def _create(self, size: int, owner: int) -> BufferId:
        schedule = self.schedule
        buffer = len(self.holders)
        self.holders.append(1)
        schedule.sizes.append(size)
        schedule.owners.append(owner)
        return buffer

    def allocate(self, size: int, owner: int, node: int) -> BufferId:
        buffer = self._create(size, owner)
        schedule = self.schedule
        schedule.events.append(buffer)
        schedule.nodes.append(node)
        return buffer

    def release(self, buffer: BufferId, node: int) -> None:
        """One holder lets go."""
        holders = self.holders
        left = holders[buffer] = holders[buffer] - 1
        if left:
            return
        schedule = self.schedule
        schedule.events.append(~buffer)
        schedule.nodes.append(node)
        for element in self.contents.pop(buffer, ()):
            if element is not None:
                self.release(element, node)

    def start(self, node: int, buffers: Any) -> list[BufferId]:
        """Allocate what the kernel asks for; `buffers` maps tensor ids to buffers. Returns what it borrowed."""
        work = self.work
        role = work.role[node]
        if role:
            return self._start_special(node, role, buffers)
        holders = self.holders
        bare = work.bare[node]
        taken = None
        for output, source, always in work.takes[node]:
            if taken is not None and output in taken:
                continue
            buffer = buffers[source]
            if always or holders[buffer] == 1:
                holders[buffer] += 1
                buffers[output] = buffer
                taken = {output} if taken is None else taken | {output}
        for output in work.outputs[node]:
            if taken is None or output not in taken:
                size = 0 if output in bare else work.sizes[output]
                buffers[output] = self.allocate(size, output, node)
        borrowed = work.borrowed[node]
        return [self.allocate(size, -1 - node, node) for size in borrowed] if borrowed else []

    def _start_special(self, node: int, role: int, buffers: Any) -> list[BufferId]:
        work = self.work
        if role in (ARGUMENT, CONSTANT):
            for output in work.outputs[node]:
                buffers[output] = self.share(self.constants[output])
        elif role == READ:
            handle = work.variable_of.get(work.inputs[node][0])
            output = work.outputs[node][0]
            buffer = None if handle is None or handle in work.sparse else self.variables.get(handle)
            buffers[output] = self._shared(buffer, output, node)
        elif role == UPDATE:
            for tensor in work.inputs[node]:
                if tensor in work.variable_of:
                    self._own_alone(work.variable_of[tensor], node)
            for output in work.outputs[node]:
                buffers[output] = self.allocate(work.sizes[output], output, node)
            return [self.allocate(size, -1 - node, node) for size in work.borrowed[node]]
        elif role == ASSIGN:
            self._assign(node, buffers)
        elif role == RETURN:
            buffer = buffers[work.inputs[node][0]]
            self.holders[buffer] += 1
            self.returned.append(buffer)
        elif role in (SWITCH, ENTER, EXIT, NEXT):
            for output in work.outputs[node]:
                buffers[output] = self._shared(buffers[work.inputs[node][0]], output, node)
        elif role == MERGE:
            pass
        elif role == LIST:
            start_list(self, node, buffers)
        elif role == NOTHING:
            for output in work.outputs[node]:
                buffers[output] = self.allocate(work.sizes[output], output, node)
        return []

    def _shared(self, buffer: BufferId | None, output: int, node: int) -> BufferId:
        if buffer is None:
            return self.allocate(self.work.sizes[output], output, node)
        self.holders[buffer] += 1
        return buffer

    def _own_alone(self, handle: int, node: int) -> None:
        """A variable that is updated in place is copied first while anybody else still reads it."""
        buffer = self.variables.get(handle)
        if buffer is None or (self.holders[buffer] == 1 and handle not in self.work.sparse):
            return
        self.variables[handle] = self.allocate(self.schedule.sizes[buffer], handle, node)
        self.release(buffer, node)

    def _assign(self, node: int, buffers: Any) -> None:
        """The variable adopts the value's buffer and lets go of its old one."""
        handle = self.work.variable_of.get(self.work.inputs[node][0])
        if handle is None:
            return
        value = buffers[self.work.inputs[node][1]]
        old = self.variables.get(handle)
        if handle in self.work.sparse:
            value = self.allocate(self.schedule.sizes[value], handle, node)
        else:
            self.holders[value] += 1
        self.variables[handle] = value
        if old is not None:
            self.release(old, node)

    def finish(self, node: int, buffers: Any, borrowed: list[BufferId]) -> None:
        """The kernel is done: what it borrowed goes back, then its inputs; its outputs go to their readers."""
        work = self.work
        self.give_back(node, buffers, borrowed, work.inputs[node])
        holders, consumers = self.holders, work.consumers
        for tensor in work.outputs[node]:
            readers = consumers[tensor]
            if readers:
                holders[buffers[tensor]] += readers - 1
            else:
                self.release(buffers[tensor], node)
        self.schedule.order.append(node)

    def give_back(self, node: int, buffers: Any, borrowed: list[BufferId], inputs: Sequence[int]) -> None:
        for buffer in borrowed:
            self.release(buffer, node)
        for tensor in inputs:
            self.release(buffers[tensor], node)

    def hand_over(self, tensor: int, buffer: BufferId, node: int) -> None:
        """An output's buffer passes from the kernel to the tensor's readers, if it has any."""
        readers = self.work.consumers[tensor]
        if readers:
            self.holders[buffer] += readers - 1
        else:
            self.release(buffer, node)

    def share(self, buffer: BufferId) -> BufferId:
        self.holders[buffer] += 1
        return buffer

    def close(self) -> Schedule:
        """The step is over: the caller drops the results, and the next step finds the variables as they are now."""
        last = self.schedule.order[-1] if self.schedule.order else 0
        for buffer in self.returned:
            self.release(buffer, last)
        began = self.variables_before
        for handle, buffer in self.variables.items():
            if began[handle] != buffer:
                self.schedule.renewed[began[handle]] = buffer
        return self.schedule
