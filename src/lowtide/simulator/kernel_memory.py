"""The memory of one node's kernel: what it allocates when it starts, and what it releases when it finishes."""

from __future__ import annotations

from typing import Any

from lowtide.simulator.allocation_stream import BufferId
from lowtide.simulator.buffer_references import BufferReferences
from lowtide.simulator.tensor_lists import start_list
from lowtide.simulator.workload import (
    ARGUMENT,
    ASSIGN,
    CONSTANT,
    ENTER,
    EXIT,
    LIST,
    NEXT,
    NOTHING,
    READ,
    RETURN,
    SWITCH,
    UPDATE,
)


class KernelMemory(BufferReferences):
    """The buffers of one simulated step; `start` and `finish` are called around each node's kernel."""

    def start(self, node: int, buffers: Any) -> list[BufferId]:
        """Allocate the outputs and temporaries of a node, and return the temporaries.

        `buffers` maps tensor ids to buffers.
        """
        work = self.work
        role = work.role[node]
        if role:
            return self._start_special(node, role, buffers)
        counts = self.counts
        reused = None
        for output, source, always in work.buffer_reuses[node]:
            if reused is not None and output in reused:
                continue
            buffer = buffers[source]
            if always or counts[buffer] == 1:
                counts[buffer] += 1
                buffers[output] = buffer
                reused = {output} if reused is None else reused | {output}
        for output in work.outputs[node]:
            if reused is None or output not in reused:
                buffers[output] = self.allocate(work.sizes[output], output, node)
        temporaries = work.temporaries[node]
        return [self.allocate(size, -1 - node, node) for size in temporaries] if temporaries else []

    def _start_special(self, node: int, role: int, buffers: Any) -> list[BufferId]:
        work = self.work
        if role in (ARGUMENT, CONSTANT):
            for output in work.outputs[node]:
                buffers[output] = self.share(self.constants[output])
        elif role == READ:
            handle = work.variable_of.get(work.inputs[node][0])
            output = work.outputs[node][0]
            buffer = None if handle is None or handle in work.sparse else self.variables.get(handle)
            if buffer is None:
                buffers[output] = self.allocate(work.sizes[output], output, node)
            else:
                buffers[output] = self.share(buffer)
        elif role == UPDATE:
            for tensor in work.inputs[node]:
                if tensor in work.variable_of:
                    self._copy_if_shared(work.variable_of[tensor], node)
            for output in work.outputs[node]:
                buffers[output] = self.allocate(work.sizes[output], output, node)
            return [self.allocate(size, -1 - node, node) for size in work.temporaries[node]]
        elif role == ASSIGN:
            self._assign(node, buffers)
        elif role == RETURN:
            self.returned.append(self.share(buffers[work.inputs[node][0]]))
        elif role in (SWITCH, ENTER, EXIT, NEXT):
            for output in work.outputs[node]:
                buffers[output] = self.share(buffers[work.inputs[node][0]])
        elif role == LIST:
            start_list(self, node, buffers)
        elif role == NOTHING:
            for output in work.outputs[node]:
                buffers[output] = self.allocate(work.sizes[output], output, node)
        return []

    def _copy_if_shared(self, handle: int, node: int) -> None:
        """Copy a variable before an update in place if another reference to its buffer exists."""
        buffer = self.variables.get(handle)
        if buffer is None or (self.counts[buffer] == 1 and handle not in self.work.sparse):
            return
        self.variables[handle] = self.allocate(self.stream.sizes[buffer], handle, node)
        self.release(buffer, node)

    def _assign(self, node: int, buffers: Any) -> None:
        """Make a variable refer to the buffer of the assigned value instead of its old one."""
        handle = self.work.variable_of.get(self.work.inputs[node][0])
        if handle is None:
            return
        value = buffers[self.work.inputs[node][1]]
        old = self.variables.get(handle)
        if handle in self.work.sparse:
            value = self.allocate(self.stream.sizes[value], handle, node)
        else:
            self.counts[value] += 1
        self.variables[handle] = value
        if old is not None:
            self.release(old, node)

    def finish(self, node: int, buffers: Any, temporaries: list[BufferId]) -> None:
        """Release the temporaries, then the inputs; pass the outputs to their readers."""
        work = self.work
        self.release_inputs(node, buffers, temporaries, work.inputs[node])
        counts, reader_counts = self.counts, work.reader_counts
        for tensor in work.outputs[node]:
            readers = reader_counts[tensor]
            if readers:
                counts[buffers[tensor]] += readers - 1
            else:
                self.release(buffers[tensor], node)
        self.stream.order.append(node)
