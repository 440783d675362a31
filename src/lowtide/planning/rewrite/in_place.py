"""Variables that stay where they are.

An assignment lets the variable adopt the buffer of the new value, wherever that lies, and lets its old one go; and an
update copies a variable that somebody still reads. What an optimizer keeps so moves with every step, and sooner or
later lies in the middle of what the large tensors need: the same step then takes up to half as much again.

A planned step writes a new value into the buffer that the variable has. TensorFlow copies such a variable when it is
read, so it must be one that is read for its own update only (a weight is read all through the step), and not before
that update begins. And updates wait for those who read the old value.

Of a variable that is no larger than the smallest chunk, such as a counter or a seed, a copy costs nothing: it stays in
place whoever reads it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from lowtide.planning.rewrite.momentum import KERNEL
from lowtide.program.graph import Shape
from lowtide.simulator.workload import ARGUMENT, CONSTANT, READ, Workload

_ASSIGN = "AssignVariableOp"
_UPDATES = frozenset({"AssignAddVariableOp", "AssignSubVariableOp", KERNEL})
_FLOATS = frozenset({1, 2, 14, 19})
# Strings, resources and variants hold something elsewhere.
_NO_NUMBERS = frozenset({7, 20, 21})
_TINY_BYTES = 256
# An update is a few nodes; who is followed by more than these is part of something else too. So is who leads to the
# change of more variables than the weight and what an optimizer keeps for it.
_MOST_AFTER, _MOST_CHANGED = 32, 4


@dataclass(frozen=True, slots=True)
class Staying:
    """What keeps variables in place."""

    assignments: list[tuple[str, Shape]] = field(default_factory=list)
    """Assignments that write into the variable's own buffer, and its shape."""
    controls: list[tuple[str, str]] = field(default_factory=list)
    """(before, after): who waits for whom."""


def stay_in_place(
    work: Workload, courses: Sequence[Sequence[str]], copies: dict[str, str], largest_bytes: float = math.inf
) -> Staying:
    """What keeps variables in place while the tasks run in these orders, one for each device.

    `copies` are the nodes that run again, and what each is a copy of. An assigned variable that is larger than
    `largest_bytes` may move: to stay in place it is copied when it is read and when it is written.
    """
    return _Finder(work, courses, copies, largest_bytes).find()


class _Finder:
    def __init__(
        self, work: Workload, courses: Sequence[Sequence[str]], copies: dict[str, str], largest_bytes: float
    ) -> None:
        self.work = work
        self.largest_bytes = largest_bytes
        self.names = work.graph.names
        self.producers = work.graph.producers()
        self.courses = courses
        self.place = {
            name: (position, number) for number, course in enumerate(courses) for position, name in enumerate(course)
        }
        self.copies: dict[str, list[str]] = defaultdict(list)
        for copy, original in copies.items():
            self.copies[original].append(copy)
        self.reads: dict[int, list[int]] = defaultdict(list)
        self.readers: dict[int, list[int]] = defaultdict(list)
        for node, inputs in enumerate(work.inputs):
            for tensor in inputs:
                self.readers[tensor].append(node)
            if work.role[node] == READ and (handle := work.variable_of.get(inputs[0])) is not None:
                self.reads[handle].append(node)

    def find(self) -> Staying:
        staying = Staying()
        for node, op in enumerate(self.work.graph.ops):
            if op == _ASSIGN and (shape := self._kept_shape(node)) is not None:
                held = [] if self._is_tiny(node) else self._hold_reads(node)
                if held is not None:
                    staying.assignments.append((self.names[node], shape))
                    staying.controls.extend(held)
            elif op in _UPDATES:
                staying.controls.extend(self._wait_for_readers(node))
        return staying

    def _value(self, assignment: int) -> int:
        return self.work.inputs[assignment][1]

    def _kept_shape(self, assignment: int) -> Shape | None:
        """The shape that an assigned variable has before and after; None if it may be another one, or is not known."""
        work = self.work
        handle = work.variable_of.get(work.inputs[assignment][0])
        if handle is None or handle in work.sparse or handle not in work.graph.variables:
            return None
        # The first value may give a variable its shape; in a step it has one.
        shape = work.graph.variables[handle][1]
        return shape if work.graph.shapes[self._value(assignment)] == shape else None

    def _is_tiny(self, assignment: int) -> bool:
        value = self._value(assignment)
        return self.work.sizes[value] <= _TINY_BYTES and self.work.graph.dtypes[value] not in _NO_NUMBERS

    def _hold_reads(self, assignment: int) -> list[tuple[str, str]] | None:
        """What the reads of an assigned variable wait for; None if it cannot stay in place."""
        work = self.work
        value = self._value(assignment)
        if work.graph.dtypes[value] not in _FLOATS or work.sizes[value] > self.largest_bytes:
            return None
        held = []
        for read in self.reads[work.variable_of[work.inputs[assignment][0]]]:
            after = self._after(read)
            if after is None or self._changed(after) > _MOST_CHANGED:
                return None
            before = self._just_before(read, after)
            if before is not None:
                held.append((before, self.names[read]))
        return held

    def _after(self, node: int) -> set[int] | None:
        """All nodes that wait for a node in the end, if they are few."""
        found: set[int] = set()
        ahead = [node]
        while ahead:
            following = set(self.work.successors[ahead.pop()]) - found
            found |= following
            ahead += following
            if len(found) > _MOST_AFTER:
                return None
        return found

    def _changed(self, nodes: set[int]) -> int:
        """How many variables these nodes change."""
        ops, inputs = self.work.graph.ops, self.work.inputs
        return len({inputs[node][0] for node in nodes if ops[node] == _ASSIGN or ops[node] in _UPDATES})

    def _just_before(self, read: int, after: set[int]) -> str | None:
        """Who runs just before what is computed from a read: so long it need not be read."""
        places = [self.place[name] for each in after if (name := self.names[each]) in self.place]
        if places:
            position, number = min(places)
            return self.courses[number][position - 1] if position else None
        # Small nodes run as soon as they can: the read waits for what else the first of them need.
        for node in sorted(after):
            for tensor in self.work.inputs[node]:
                producer = self.producers[tensor]
                computed = self.work.role[producer] not in (ARGUMENT, CONSTANT, READ)
                if computed and producer not in after and producer != read:
                    return self.names[producer]
        return None

    def _wait_for_readers(self, update: int) -> list[tuple[str, str]]:
        """Let an update wait for all who read the old value, but for those who come later in the order."""
        name = self.names[update]
        after = self._after(update)
        if after is None:
            return []
        handle = self.work.variable_of.get(self.work.inputs[update][0])
        reads = self.reads[handle] if handle is not None else []
        readers = {reader for read in reads for reader in self._all_readers(read)}
        originals = [self.names[reader] for reader in sorted(readers - after - {update})]
        every = [each for original in originals for each in (original, *self.copies[original])]
        # Of what leads to a change that has a place in the order, only that is sure to be there before it.
        places = [self.place[other] for other in (name, *map(self.names.__getitem__, after)) if other in self.place]
        if places:
            every = [each for each in every if each in self.place and self.place[each] < min(places)]
        return [(each, name) for each in every]

    def _all_readers(self, read: int) -> set[int]:
        """Who reads what a node makes, also in another shape: that is the same buffer."""
        found: set[int] = set()
        ahead = list(self.work.outputs[read])
        while ahead:
            tensor = ahead.pop()
            found.update(self.readers[tensor])
            for reader in self.readers[tensor]:
                ahead += [
                    made for made, source, always in self.work.buffer_reuses[reader] if always and source == tensor
                ]
        return found
