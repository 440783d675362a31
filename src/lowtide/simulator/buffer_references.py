"""Reference counts of the buffers of one simulated step.

Every tensor between two nodes is a reference to a buffer. A buffer is freed when its last reference is dropped. The
nodes that still have to read it, the variable that owns it, a tensor list that contains it and the caller each hold
one. A kernel may reuse an input's buffer for its output only if it holds the only reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowtide.program.dtypes import RESOURCE
from lowtide.simulator.allocation_stream import AllocationStream, BufferId
from lowtide.simulator.workload import ARGUMENT, CONSTANT, Workload


class BufferReferences:
    """The buffers of one simulated step, with the number of references to each."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.stream = AllocationStream()
        self.counts: list[int] = []
        """The number of references to each buffer."""
        self.contents: dict[BufferId, list[BufferId | None]] = {}
        """The elements of each tensor list."""
        self.reads: dict[BufferId, int] = {}
        """The element of each tensor list that was read last."""
        self.variables: dict[int, BufferId] = {}
        self.constants: dict[int, BufferId] = {}
        self.returned: list[BufferId] = []
        self._create_state()

    def _create_state(self) -> None:
        """Create the buffers that exist before the step, in the order in which a process creates them.

        Variables come first, then the batch; constants are created when the function runs for the first time.
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
        constants = [node for node, role in enumerate(work.role) if role == CONSTANT and node not in work.folded_away]
        for nodes in (arguments, constants):
            self.stream.first_constant = len(self.counts)
            for tensor in (tensor for node in nodes for tensor in work.outputs[node]):
                buffer = self.constants[tensor] = self._create(work.sizes[tensor], tensor)
                if graph.dtypes[tensor] == RESOURCE:
                    self.stream.handles.add(buffer)
        self.variables_before = dict(self.variables)
        self.stream.before = list(range(len(self.counts)))

    def _create(self, size: int, owner: int) -> BufferId:
        stream = self.stream
        buffer = len(self.counts)
        self.counts.append(1)
        stream.sizes.append(size)
        stream.owner_ids.append(owner)
        return buffer

    def allocate(self, size: int, owner: int, node: int) -> BufferId:
        """Allocate a buffer with one reference."""
        buffer = self._create(size, owner)
        stream = self.stream
        stream.events.append(buffer)
        stream.nodes.append(node)
        return buffer

    def share(self, buffer: BufferId) -> BufferId:
        """Add a reference."""
        self.counts[buffer] += 1
        return buffer

    def release(self, buffer: BufferId, node: int) -> None:
        """Drop a reference, and free the buffer if it was the last one."""
        counts = self.counts
        left = counts[buffer] = counts[buffer] - 1
        if left:
            return
        stream = self.stream
        stream.events.append(~buffer)
        stream.nodes.append(node)
        for element in self.contents.pop(buffer, ()):
            if element is not None:
                self.release(element, node)

    def release_inputs(self, node: int, buffers: Any, temporaries: list[BufferId], inputs: Sequence[int]) -> None:
        """Drop a kernel's references: its temporaries, then its inputs."""
        for buffer in temporaries:
            self.release(buffer, node)
        for tensor in inputs:
            self.release(buffers[tensor], node)

    def hand_over(self, tensor: int, buffer: BufferId, node: int) -> None:
        """Pass the reference to an output's buffer from the kernel to the tensor's readers."""
        readers = self.work.reader_counts[tensor]
        if readers:
            self.counts[buffer] += readers - 1
        else:
            self.release(buffer, node)

    def close(self) -> AllocationStream:
        """End the step: drop the caller's references to the results, and record where the variables are now."""
        last = self.stream.order[-1] if self.stream.order else 0
        for buffer in self.returned:
            self.release(buffer, last)
        before = self.variables_before
        for handle, buffer in self.variables.items():
            if before[handle] != buffer:
                self.stream.renewed[before[handle]] = buffer
        return self.stream
