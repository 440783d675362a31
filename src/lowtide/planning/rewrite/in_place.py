"""Variables that keep their buffers.

An assignment lets the variable adopt the buffer of the new value and frees the old one, and an update copies a variable
that another operation still reads. So an optimizer's slots move with every step and fragment the memory that large
tensors need: the same step then takes up to half as much again.

A planned step writes a new value into the variable's own buffer. TensorFlow copies such a variable when it is read, so
this is done only for variables that are read for their own update (a weight is read throughout the step), and the
read waits until that update is about to start. Updates wait for the readers of the old value.

A variable that is no larger than the smallest chunk, such as a counter or a seed, costs nothing to copy and always
stays in place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from lowtide.planning.rewrite.momentum import KERNEL
from lowtide.planning.tuning import TUNING
from lowtide.program.graph import Shape
from lowtide.simulator.workload import ARGUMENT, CONSTANT, READ, Workload

_ASSIGN = "AssignVariableOp"
_UPDATES = frozenset({"AssignAddVariableOp", "AssignSubVariableOp", KERNEL})
_FLOATS = frozenset({1, 2, 14, 19})
# Strings, resources and variants have data outside of the tensor.
_NO_NUMBERS = frozenset({7, 20, 21})
# The smallest chunk of the allocator.
_TINY_BYTES = 256


@dataclass(frozen=True, slots=True)
class InPlaceUpdates:
    """The edits that keep variables in place."""

    assignments: list[tuple[str, Shape]] = field(default_factory=list)
    """Assignments that write into the variable's own buffer, and its shape."""
    controls: list[tuple[str, str]] = field(default_factory=list)
    """Control edges: (before, after)."""


def find_in_place_updates(
    work: Workload, schedules: Sequence[Sequence[str]], copies: dict[str, str], largest_bytes: float = math.inf
) -> InPlaceUpdates:
    """Return what keeps variables in place under these schedules, one for each device.

    `copies` maps rematerialized nodes to their originals. An assigned variable larger than `largest_bytes` may move,
    because one that stays in place is copied when it is read and when it is written.
    """
    return _InPlaceFinder(work, schedules, copies, largest_bytes).find()


class _InPlaceFinder:
    def __init__(
        self, work: Workload, schedules: Sequence[Sequence[str]], copies: dict[str, str], largest_bytes: float
    ) -> None:
        self.work = work
        self.largest_bytes = largest_bytes
        self.names = work.graph.names
        self.producers = work.graph.producers()
        self.schedules = schedules
        self.place = {
            name: (position, number)
            for number, schedule in enumerate(schedules)
            for position, name in enumerate(schedule)
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

    def find(self) -> InPlaceUpdates:
        in_place = InPlaceUpdates()
        for node, op in enumerate(self.work.graph.ops):
            if op == _ASSIGN and (shape := self._kept_shape(node)) is not None:
                held = [] if self._is_tiny(node) else self._hold_reads(node)
                if held is not None:
                    in_place.assignments.append((self.names[node], shape))
                    in_place.controls.extend(held)
            elif op in _UPDATES:
                in_place.controls.extend(self._wait_for_readers(node))
        return in_place

    def _value(self, assignment: int) -> int:
        return self.work.inputs[assignment][1]

    def _kept_shape(self, assignment: int) -> Shape | None:
        """Return the shape of an assigned variable; None if it is not known or may change."""
        work = self.work
        handle = work.variable_of.get(work.inputs[assignment][0])
        if handle is None or handle in work.sparse or handle not in work.graph.variables:
            return None
        # A variable may get its shape from its first value; in a step it has one.
        shape = work.graph.variables[handle][1]
        return shape if work.graph.shapes[self._value(assignment)] == shape else None

    def _is_tiny(self, assignment: int) -> bool:
        value = self._value(assignment)
        return self.work.sizes[value] <= _TINY_BYTES and self.work.graph.dtypes[value] not in _NO_NUMBERS

    def _hold_reads(self, assignment: int) -> list[tuple[str, str]] | None:
        """Return the control edges that delay the reads of an assigned variable; None if it cannot stay in place."""
        work = self.work
        value = self._value(assignment)
        if work.graph.dtypes[value] not in _FLOATS or work.sizes[value] > self.largest_bytes:
            return None
        held = []
        for read in self.reads[work.variable_of[work.inputs[assignment][0]]]:
            after = self._after(read)
            if after is None or self._changed(after) > TUNING.in_place_changed:
                return None
            before = self._just_before(read, after)
            if before is not None:
                held.append((before, self.names[read]))
        return held

    def _after(self, node: int) -> set[int] | None:
        """Return all descendants of a node; None if they are many, so that it is not only part of an update."""
        found: set[int] = set()
        ahead = [node]
        while ahead:
            following = set(self.work.successors[ahead.pop()]) - found
            found |= following
            ahead += following
            if len(found) > TUNING.in_place_followers:
                return None
        return found

    def _changed(self, nodes: set[int]) -> int:
        """Return how many variables these nodes change."""
        ops, inputs = self.work.graph.ops, self.work.inputs
        return len({inputs[node][0] for node in nodes if ops[node] == _ASSIGN or ops[node] in _UPDATES})

    def _just_before(self, read: int, after: set[int]) -> str | None:
        """Return the node that runs just before the first use of a read, which the read can wait for."""
        places = [self.place[name] for each in after if (name := self.names[each]) in self.place]
        if places:
            position, number = min(places)
            return self.schedules[number][position - 1] if position else None
        # Small nodes run as soon as they can: the read waits for another input of the first of them.
        for node in sorted(after):
            for tensor in self.work.inputs[node]:
                producer = self.producers[tensor]
                computed = self.work.role[producer] not in (ARGUMENT, CONSTANT, READ)
                if computed and producer not in after and producer != read:
                    return self.names[producer]
        return None

    def _wait_for_readers(self, update: int) -> list[tuple[str, str]]:
        """Let an update wait for all readers of the old value that come before it in the schedule."""
        name = self.names[update]
        after = self._after(update)
        if after is None:
            return []
        handle = self.work.variable_of.get(self.work.inputs[update][0])
        reads = self.reads[handle] if handle is not None else []
        readers = {reader for read in reads for reader in self._all_readers(read)}
        originals = [self.names[reader] for reader in sorted(readers - after - {update})]
        every = [each for original in originals for each in (original, *self.copies[original])]
        # If the update is scheduled, only readers scheduled before it are certain to run before it.
        places = [self.place[other] for other in (name, *map(self.names.__getitem__, after)) if other in self.place]
        if places:
            every = [each for each in every if each in self.place and self.place[each] < min(places)]
        return [(each, name) for each in every]

    def _all_readers(self, read: int) -> set[int]:
        """Return the readers of a node's outputs, also through views of them."""
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
