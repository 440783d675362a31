"""Control flow: which nodes become ready when a node has run.

A tag is (node, iteration, dead). In a graph without control flow there is one iteration and nothing is dead. Loops run
in frames: `Enter` passes a value to a frame's first iteration, `NextIteration` passes it to the next one, and `Exit`
returns it to the enclosing frame. `Switch` makes one of its outputs dead. A node with a dead input does not run, and
its outputs are dead too; `Merge` takes the input that is not dead.
"""

from __future__ import annotations

from random import Random
from typing import Any

from lowtide.program.values import evaluate
from lowtide.simulator.allocation_stream import BufferId
from lowtide.simulator.kernel_memory import KernelMemory
from lowtide.simulator.tuning import UNKNOWN_LOOP_ITERATIONS
from lowtide.simulator.workload import ENTER, EXIT, MERGE, NEXT, SWITCH, Workload


class LoopFrame:
    """One execution of a loop."""

    __slots__ = ("dead", "deferred", "entered", "invariants", "iterations", "name", "oldest", "outside", "parallel")

    def __init__(self, name: str, outside: LoopIteration | None, parallel: int = 1) -> None:
        self.name = name
        self.outside = outside
        self.parallel = parallel
        self.iterations: dict[int, LoopIteration] = {}
        self.oldest = 0
        self.invariants: list[tuple[int, BufferId | None, Any]] = []
        self.deferred: list[tuple[int, LoopIteration]] = []
        self.entered = 0
        self.dead = False


class LoopIteration:
    """One iteration of a loop: how many inputs its nodes still wait for, and the tensors between them."""

    __slots__ = (
        "active",
        "buffers",
        "chosen",
        "dead_counts",
        "doomed",
        "frame",
        "inner",
        "number",
        "pending",
        "values",
    )

    def __init__(self, frame: LoopFrame, number: int, pending: Any, buffers: Any) -> None:
        self.frame = frame
        self.number = number
        self.pending = pending
        self.buffers = buffers
        self.chosen: dict[int, int] = {}
        self.dead_counts: dict[int, int] = {}
        self.doomed: set[int] = set()
        self.values: dict[int, Any] = {}
        self.inner: dict[str, LoopFrame] = {}
        # The number of nodes that are ready or running, and of inner loops that have not ended.
        self.active = 0


Tag = tuple[int, LoopIteration, bool]


class DataFlow:
    """Readiness of nodes in a graph without control flow: a node is ready when all its inputs have arrived."""

    def __init__(self, work: Workload, memory: KernelMemory, rng: Random) -> None:
        self.work = work
        self.memory = memory
        self.successors = list(work.successors)
        for node in work.unordered_fanouts:
            self.successors[node] = rng.sample(work.successors[node], len(work.successors[node]))
        self.root = LoopIteration(LoopFrame("", None), 0, list(work.pending), [0] * work.graph.tensor_count)

    def roots(self) -> list[Tag]:
        return [(node, self.root, False) for node in self.work.roots]

    def start(self, tag: Tag) -> list[BufferId]:
        return self.memory.start(tag[0], tag[1].buffers)

    def finish(self, tag: Tag, temporaries: list[BufferId]) -> list[Tag]:
        node, iteration, _ = tag
        self.memory.finish(node, iteration.buffers, temporaries)
        pending = iteration.pending
        ready = []
        for successor in self.successors[node]:
            left = pending[successor] = pending[successor] - 1
            if not left:
                ready.append((successor, iteration, False))
        return ready


class ControlFlow(DataFlow):
    """Readiness of nodes in a graph with loops and branches."""

    def __init__(self, work: Workload, memory: KernelMemory, rng: Random, branch: bool) -> None:
        super().__init__(work, memory, rng)
        self.branch = branch
        graph = work.graph
        self.readers: list[list[int]] = [[] for _ in range(graph.tensor_count)]
        self.waiting: list[list[int]] = [[] for _ in range(len(graph))]
        self.initial = list(work.pending)
        self.enters: dict[str, int] = {}
        for node in work.build_order:
            for tensor in work.inputs[node]:
                self.readers[tensor].append(node)
            for source in graph.controls_of(node):
                self.waiting[source].append(node)
            if work.role[node] == MERGE:
                # One input that is not dead is enough.
                self.initial[node] = len(graph.controls_of(node)) + 1
            elif work.role[node] == ENTER:
                name = graph.attributes[node]["frame_name"]
                self.enters[name] = self.enters.get(name, 0) + 1
        for node in work.unordered_fanouts:
            for listeners in (*(self.readers[tensor] for tensor in work.outputs[node]), self.waiting[node]):
                rng.shuffle(listeners)
        self.root = LoopIteration(LoopFrame("", None), 0, {}, {})
        self.root.values = dict(graph.values)

    def start(self, tag: Tag) -> list[BufferId]:
        node, iteration, dead = tag
        if dead:
            return []
        role, memory = self.work.role[node], self.memory
        if role == MERGE:
            value, which = self.work.outputs[node]
            iteration.buffers[value] = memory.share(iteration.buffers[iteration.chosen[node]])
            # The index of the input that arrived is only allocated if a node reads it.
            if self.readers[which]:
                iteration.buffers[which] = memory.allocate(4, which, node)
            return []
        if role == SWITCH:
            taken = self.work.outputs[node][int(self._decide(node, iteration))]
            iteration.buffers[taken] = memory.share(iteration.buffers[self.work.inputs[node][0]])
            return []
        return memory.start(node, iteration.buffers)

    def _decide(self, node: int, iteration: LoopIteration) -> bool:
        """Return which output of a Switch is alive: by the value of its condition if it is known, else by a guess."""
        known = self._value(self.work.inputs[node][1], iteration)
        if known is not None:
            return bool(known)
        self.memory.stream.guesses.add(node)
        if iteration.frame.name:
            return iteration.number < UNKNOWN_LOOP_ITERATIONS
        return self.branch

    def _value(self, tensor: int, iteration: LoopIteration) -> Any:
        value = iteration.values.get(tensor)
        return value if value is not None else self.work.graph.values.get(tensor)

    def finish(self, tag: Tag, temporaries: list[BufferId]) -> list[Tag]:
        node, iteration, dead = tag
        role = self.work.role[node]
        ready: list[Tag] = []
        if dead:
            for tensor in self.work.inputs[node]:
                if tensor in iteration.buffers and role != MERGE:
                    self.memory.release(iteration.buffers[tensor], node)
        else:
            self._release(node, role, iteration, temporaries)
            self._compute(node, iteration)
        self._propagate(node, role, iteration, dead, ready)
        self._retire(iteration, node, ready)
        return ready

    def _retire(self, iteration: LoopIteration, node: int, ready: list[Tag]) -> None:
        """Count down the activity of an iteration; iterations end in order, and make room for later ones."""
        iteration.active -= 1
        frame = iteration.frame
        while frame.name and frame.entered == self.enters[frame.name]:
            oldest = frame.iterations.get(frame.oldest)
            if oldest is None or oldest.active:
                return
            del frame.iterations[frame.oldest]
            frame.oldest += 1
            if frame.deferred:
                deferred, frame.deferred = frame.deferred, []
                for waiting, source in deferred:
                    self._pass_to(waiting, source, self._iteration(frame, source.number + 1, ready), False, ready)
            if not frame.iterations:
                self._close_frame(frame, node, ready)
                return

    def _close_frame(self, frame: LoopFrame, node: int, ready: list[Tag]) -> None:
        for _, buffer, _ in frame.invariants:
            if buffer is not None:
                self.memory.release(buffer, node)
        frame.invariants = []
        assert frame.outside is not None
        self._retire(frame.outside, node, ready)

    def roots(self) -> list[Tag]:
        self.root.active = len(self.work.roots)
        return super().roots()

    def _release(self, node: int, role: int, iteration: LoopIteration, temporaries: list[BufferId]) -> None:
        memory, buffers = self.memory, iteration.buffers
        inputs = [iteration.chosen[node]] if role == MERGE else self.work.inputs[node]
        memory.release_inputs(node, buffers, temporaries, inputs)
        keeps = role == ENTER and self.work.graph.attributes[node].get("is_constant")
        for tensor in self.work.outputs[node]:
            if tensor in buffers and not keeps:
                memory.hand_over(tensor, buffers[tensor], node)
        memory.stream.order.append(node)

    def _compute(self, node: int, iteration: LoopIteration) -> None:
        """Evaluate counters and conditions, so that loops end after the right number of iterations."""
        graph = self.work.graph
        inputs = [self._value(tensor, iteration) for tensor in self.work.inputs[node]]
        outputs = self.work.outputs[node]
        role = self.work.role[node]
        if role in (ENTER, EXIT, NEXT, SWITCH):
            if inputs[0] is not None:
                for tensor in outputs:
                    iteration.values[tensor] = inputs[0]
        elif role == MERGE:
            value = self._value(iteration.chosen[node], iteration)
            if value is not None:
                iteration.values[outputs[0]] = value
        elif inputs and all(value is not None for value in inputs):
            for tensor, value in zip(
                outputs, evaluate(graph.ops[node], graph.attributes[node], inputs) or (), strict=False
            ):
                iteration.values[tensor] = value

    def _propagate(self, node: int, role: int, iteration: LoopIteration, dead: bool, ready: list[Tag]) -> None:
        target: LoopIteration | None = iteration
        if role == ENTER:
            self._enter(node, iteration, dead, ready)
            return
        frame = iteration.frame
        if role == NEXT:
            if dead:
                return
            if iteration.number + 1 not in frame.iterations and len(frame.iterations) >= frame.parallel:
                # `parallel_iterations` are running: this value waits until the oldest one ends.
                frame.deferred.append((node, iteration))
                return
            target = self._iteration(frame, iteration.number + 1, ready)
        elif role == EXIT:
            target = frame.outside if not dead or frame.dead else None
        if target is not None:
            self._pass_to(node, iteration, target, dead, ready)

    def _pass_to(
        self, node: int, iteration: LoopIteration, target: LoopIteration, dead: bool, ready: list[Tag]
    ) -> None:
        for tensor in self.work.outputs[node]:
            is_alive = not dead and tensor in iteration.buffers
            # The next iteration may produce its own value of the tensor before it has read this one.
            arrival = ~tensor if target.frame is iteration.frame and target is not iteration else tensor
            if is_alive and target is not iteration:
                target.buffers[arrival] = iteration.buffers[tensor]
                if tensor in iteration.values:
                    target.values[arrival] = iteration.values[tensor]
            self._deliver(tensor, target, not is_alive, False, ready, arrival)
        for waiting in self.waiting[node]:
            self._notify(waiting, target, dead, ready)

    def _enter(self, node: int, iteration: LoopIteration, dead: bool, ready: list[Tag]) -> None:
        attributes = self.work.graph.attributes[node]
        name = attributes["frame_name"]
        frame = iteration.inner.get(name)
        if frame is None:
            frame = iteration.inner[name] = LoopFrame(name, iteration, attributes.get("parallel_iterations", 10))
            iteration.active += 1
            # The first iteration stays open until every value has entered.
            self._iteration(frame, 0, ready)
        frame.entered += 1
        frame.dead |= dead
        tensor = self.work.outputs[node][0]
        buffer = None if dead else iteration.buffers[tensor]
        value = iteration.values.get(tensor)
        if self.work.graph.attributes[node].get("is_constant"):
            frame.invariants.append((tensor, buffer, value))
            for target in list(frame.iterations.values()):
                self._deliver_invariant(tensor, buffer, value, target, ready)
        else:
            target = frame.iterations[0]
            self._place(tensor, buffer, value, target)
            self._deliver(tensor, target, dead, True, ready)
        for waiting in self.waiting[node]:
            self._notify(waiting, frame.iterations[0], dead, ready)

    def _place(self, tensor: int, buffer: BufferId | None, value: Any, target: LoopIteration) -> None:
        if buffer is not None:
            target.buffers[tensor] = buffer
        if value is not None:
            target.values[tensor] = value

    def _deliver_invariant(
        self, tensor: int, buffer: BufferId | None, value: Any, target: LoopIteration, ready: list[Tag]
    ) -> None:
        """Pass a loop constant to an iteration: the frame holds one reference, and so does each reader."""
        self._place(tensor, buffer, value, target)
        if buffer is not None:
            self.memory.counts[buffer] += len(self.readers[tensor])
        self._deliver(tensor, target, buffer is None, True, ready)

    def _iteration(self, frame: LoopFrame, number: int, ready: list[Tag]) -> LoopIteration:
        found = frame.iterations.get(number)
        if found is None:
            found = frame.iterations[number] = LoopIteration(frame, number, {}, {})
            for tensor, buffer, value in frame.invariants:
                self._deliver_invariant(tensor, buffer, value, found, ready)
        return found

    def _deliver(
        self,
        tensor: int,
        target: LoopIteration,
        dead: bool,
        entering: bool,
        ready: list[Tag],
        arrival: int | None = None,
    ) -> None:
        """Notify the readers of a tensor; a `Merge` finds its value under `arrival`."""
        for reader in self.readers[tensor]:
            if self.work.role[reader] != MERGE:
                self._notify(reader, target, dead, ready)
            elif not dead:
                target.chosen[reader] = tensor if arrival is None else arrival
                self._notify(reader, target, False, ready)
            else:
                count = target.dead_counts[reader] = target.dead_counts.get(reader, 0) + 1
                # A dead Enter makes its Merge dead: no value will arrive from NextIteration.
                if count == len(self.work.inputs[reader]) or entering:
                    self._notify(reader, target, True, ready)

    def _notify(self, node: int, target: LoopIteration, dead: bool, ready: list[Tag]) -> None:
        left = target.pending[node] = target.pending.get(node, self.initial[node]) - 1
        if dead:
            target.doomed.add(node)
        if not left:
            doomed = node in target.doomed and node not in target.chosen
            target.active += 1
            ready.append((node, target, doomed))
