"""Flow: which nodes become ready when a node has run.

A tag is (node, iteration, dead). In a graph without control flow there is one iteration and nothing is dead.
Loops run in frames: `Enter` opens a frame's first iteration, `NextIteration` hands a value to the next one,
`Exit` returns it to the frame outside. `Switch` makes one of its outputs dead; a node with a dead input does
not run but passes the death on, and `Merge` takes the input that lives.
"""

from __future__ import annotations

from random import Random
from typing import Any

from lowtide.program.values import evaluate
from lowtide.simulator.buffer_references import BufferId, Holdings
from lowtide.simulator.workload import ENTER, EXIT, MERGE, NEXT, SWITCH, Workload, construction_order

# A loop whose end the graph does not tell is followed this far.
LARGEST_UNTOLD_TRIPS = 16


class Frame:
    """One run of one loop."""

    __slots__ = ("dead", "deferred", "entered", "invariants", "iterations", "name", "oldest", "outside", "parallel")

    def __init__(self, name: str, outside: Iteration | None, parallel: int = 1) -> None:
        self.name = name
        self.outside = outside
        self.parallel = parallel
        self.iterations: dict[int, Iteration] = {}
        self.oldest = 0
        self.invariants: list[tuple[int, BufferId | None, Any]] = []
        self.deferred: list[tuple[int, Iteration]] = []
        self.entered = 0
        self.dead = False


class Iteration:
    """One round of a loop: what its nodes still wait for, and the tensors on their way."""

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

    def __init__(self, frame: Frame, number: int, pending: Any, buffers: Any) -> None:
        self.frame = frame
        self.number = number
        self.pending = pending
        self.buffers = buffers
        self.chosen: dict[int, int] = {}
        self.dead_counts: dict[int, int] = {}
        self.doomed: set[int] = set()
        self.values: dict[int, Any] = {}
        self.inner: dict[str, Frame] = {}
        # Nodes that are ready or running, and inner loops that are not over.
        self.active = 0


Tag = tuple[int, Iteration, bool]


class Flow:
    """Readiness of nodes in a graph without control flow: one iteration, plain counting."""

    def __init__(self, work: Workload, holdings: Holdings, chance: Random) -> None:
        self.work = work
        self.holdings = holdings
        self.successors = list(work.successors)
        for node in work.crowded:
            self.successors[node] = chance.sample(work.successors[node], len(work.successors[node]))
        self.root = Iteration(Frame("", None), 0, list(work.pending), [0] * work.graph.tensor_count)

    def roots(self) -> list[Tag]:
        return [(node, self.root, False) for node in self.work.roots]

    def start(self, tag: Tag) -> list[BufferId]:
        return self.holdings.start(tag[0], tag[1].buffers)

    def finish(self, tag: Tag, borrowed: list[BufferId]) -> list[Tag]:
        node, iteration, _ = tag
        self.holdings.finish(node, iteration.buffers, borrowed)
        pending = iteration.pending
        ready = []
        for successor in self.successors[node]:
            left = pending[successor] = pending[successor] - 1
            if not left:
                ready.append((successor, iteration, False))
        return ready


class FramedFlow(Flow):
    """Readiness of nodes with loops and branches."""

    def __init__(self, work: Workload, holdings: Holdings, chance: Random, branch: bool) -> None:
        super().__init__(work, holdings, chance)
        self.branch = branch
        graph = work.graph
        self.readers: list[list[int]] = [[] for _ in range(graph.tensor_count)]
        self.waiting: list[list[int]] = [[] for _ in range(len(graph))]
        self.initial = list(work.pending)
        self.enters: dict[str, int] = {}
        for node in construction_order(graph, work.left_over):
            for tensor in work.inputs[node]:
                self.readers[tensor].append(node)
            for source in graph.controls_of(node):
                self.waiting[source].append(node)
            if work.role[node] == MERGE:
                # One living input is enough.
                self.initial[node] = len(graph.controls_of(node)) + 1
            elif work.role[node] == ENTER:
                name = graph.attributes[node]["frame_name"]
                self.enters[name] = self.enters.get(name, 0) + 1
        for node in work.crowded:
            for told in (*(self.readers[tensor] for tensor in work.outputs[node]), self.waiting[node]):
                chance.shuffle(told)
        self.root = Iteration(Frame("", None), 0, {}, {})
        self.root.values = dict(graph.values)

    def start(self, tag: Tag) -> list[BufferId]:
        node, iteration, dead = tag
        if dead:
            return []
        role, holdings = self.work.role[node], self.holdings
        if role == MERGE:
            value, which = self.work.outputs[node]
            iteration.buffers[value] = holdings.share(iteration.buffers[iteration.chosen[node]])
            # Which input came is only written down for somebody who asks.
            if self.readers[which]:
                iteration.buffers[which] = holdings.allocate(4, which, node)
            return []
        if role == SWITCH:
            taken = self.work.outputs[node][int(self._decide(node, iteration))]
            iteration.buffers[taken] = holdings.share(iteration.buffers[self.work.inputs[node][0]])
            return []
        return holdings.start(node, iteration.buffers)

    def _decide(self, node: int, iteration: Iteration) -> bool:
        """Which output of a Switch lives: told by the value of its condition, or guessed."""
        known = self._value(self.work.inputs[node][1], iteration)
        if known is not None:
            return bool(known)
        self.holdings.schedule.guesses.add(node)
        if iteration.frame.name:
            return iteration.number < LARGEST_UNTOLD_TRIPS
        return self.branch

    def _value(self, tensor: int, iteration: Iteration) -> Any:
        value = iteration.values.get(tensor)
        return value if value is not None else self.work.graph.values.get(tensor)

    def finish(self, tag: Tag, borrowed: list[BufferId]) -> list[Tag]:
        node, iteration, dead = tag
        role = self.work.role[node]
        ready: list[Tag] = []
        if dead:
            for tensor in self.work.inputs[node]:
                if tensor in iteration.buffers and role != MERGE:
                    self.holdings.release(iteration.buffers[tensor], node)
        else:
            self._give_back(node, role, iteration, borrowed)
            self._compute(node, iteration)
        self._pass_on(node, role, iteration, dead, ready)
        self._retire(iteration, node, ready)
        return ready

    def _retire(self, iteration: Iteration, node: int, ready: list[Tag]) -> None:
        """One thing less to wait for in a round. A loop's oldest rounds end in their order and make room for others."""
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
                    self._hand_on(waiting, source, self._round(frame, source.number + 1, ready), False, ready)
            if not frame.iterations:
                self._close_frame(frame, node, ready)
                return

    def _close_frame(self, frame: Frame, node: int, ready: list[Tag]) -> None:
        for _, buffer, _ in frame.invariants:
            if buffer is not None:
                self.holdings.release(buffer, node)
        frame.invariants = []
        assert frame.outside is not None
        self._retire(frame.outside, node, ready)

    def roots(self) -> list[Tag]:
        self.root.active = len(self.work.roots)
        return super().roots()

    def _give_back(self, node: int, role: int, iteration: Iteration, borrowed: list[BufferId]) -> None:
        holdings, buffers = self.holdings, iteration.buffers
        inputs = [iteration.chosen[node]] if role == MERGE else self.work.inputs[node]
        holdings.give_back(node, buffers, borrowed, inputs)
        keeps = role == ENTER and self.work.graph.attributes[node].get("is_constant")
        for tensor in self.work.outputs[node]:
            if tensor in buffers and not keeps:
                holdings.hand_over(tensor, buffers[tensor], node)
        holdings.schedule.order.append(node)

    def _compute(self, node: int, iteration: Iteration) -> None:
        """Follow counters and conditions, so that loops end where they end."""
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

    def _pass_on(self, node: int, role: int, iteration: Iteration, dead: bool, ready: list[Tag]) -> None:
        target: Iteration | None = iteration
        if role == ENTER:
            self._enter(node, iteration, dead, ready)
            return
        frame = iteration.frame
        if role == NEXT:
            if dead:
                return
            if iteration.number + 1 not in frame.iterations and len(frame.iterations) >= frame.parallel:
                # So many rounds run at once and no more: this value waits until the oldest is over.
                frame.deferred.append((node, iteration))
                return
            target = self._round(frame, iteration.number + 1, ready)
        elif role == EXIT:
            target = frame.outside if not dead or frame.dead else None
        if target is not None:
            self._hand_on(node, iteration, target, dead, ready)

    def _hand_on(self, node: int, iteration: Iteration, target: Iteration, dead: bool, ready: list[Tag]) -> None:
        for tensor in self.work.outputs[node]:
            lives = not dead and tensor in iteration.buffers
            if lives and target is not iteration:
                target.buffers[tensor] = iteration.buffers[tensor]
                if tensor in iteration.values:
                    target.values[tensor] = iteration.values[tensor]
            self._deliver(tensor, target, not lives, False, ready)
        for waiting in self.waiting[node]:
            self._tell(waiting, target, dead, ready)

    def _enter(self, node: int, iteration: Iteration, dead: bool, ready: list[Tag]) -> None:
        attributes = self.work.graph.attributes[node]
        name = attributes["frame_name"]
        frame = iteration.inner.get(name)
        if frame is None:
            frame = iteration.inner[name] = Frame(name, iteration, attributes.get("parallel_iterations", 10))
            iteration.active += 1
            # The first round is kept until every value has entered.
            self._round(frame, 0, ready)
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
            self._tell(waiting, frame.iterations[0], dead, ready)

    def _place(self, tensor: int, buffer: BufferId | None, value: Any, target: Iteration) -> None:
        if buffer is not None:
            target.buffers[tensor] = buffer
        if value is not None:
            target.values[tensor] = value

    def _deliver_invariant(
        self, tensor: int, buffer: BufferId | None, value: Any, target: Iteration, ready: list[Tag]
    ) -> None:
        """The frame keeps hold of a constant of the loop; every round's readers hold it too."""
        self._place(tensor, buffer, value, target)
        if buffer is not None:
            self.holdings.holders[buffer] += len(self.readers[tensor])
        self._deliver(tensor, target, buffer is None, True, ready)

    def _round(self, frame: Frame, number: int, ready: list[Tag]) -> Iteration:
        found = frame.iterations.get(number)
        if found is None:
            found = frame.iterations[number] = Iteration(frame, number, {}, {})
            for tensor, buffer, value in frame.invariants:
                self._deliver_invariant(tensor, buffer, value, found, ready)
        return found

    def _deliver(self, tensor: int, target: Iteration, dead: bool, entering: bool, ready: list[Tag]) -> None:
        for reader in self.readers[tensor]:
            if self.work.role[reader] != MERGE:
                self._tell(reader, target, dead, ready)
            elif not dead:
                target.chosen[reader] = tensor
                self._tell(reader, target, False, ready)
            else:
                count = target.dead_counts[reader] = target.dead_counts.get(reader, 0) + 1
                # A dead Enter kills the Merge behind it: the value from the loop's end will never come.
                if count == len(self.work.inputs[reader]) or entering:
                    self._tell(reader, target, True, ready)

    def _tell(self, node: int, target: Iteration, dead: bool, ready: list[Tag]) -> None:
        left = target.pending[node] = target.pending.get(node, self.initial[node]) - 1
        if dead:
            target.doomed.add(node)
        if not left:
            doomed = node in target.doomed and node not in target.chosen
            target.active += 1
            ready.append((node, target, doomed))
