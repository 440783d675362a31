"""Momentum updates of a weight and its slot, which one kernel can do in place.

Keras's SGD computes a slot's new value beside the old one, lets the slot adopt it, and adds it to the weight: seven
nodes, some with outputs as large as the weight, and a slot that has another buffer after each step. TensorFlow has a
kernel that does all this in place.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from lowtide.program.graph import Graph

KERNEL = "ResourceApplyKerasMomentum"
READ, ASSIGN, ADD = "ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp"

InputPlace = tuple[str, int]
"""A node and a position among its inputs."""


@dataclass(frozen=True, slots=True)
class MomentumUpdate:
    """slot = momentum * slot - rate * gradient; weight += slot."""

    addition: str
    """The node that adds to the weight."""
    others: tuple[str, ...]
    """The other nodes of the update, which no other node reads."""
    weight: InputPlace
    slot: InputPlace
    rate: InputPlace
    gradient: InputPlace
    momentum: InputPlace


def momentum_updates(graph: Graph) -> list[MomentumUpdate]:
    """Return the momentum updates of a graph."""
    finder = _MomentumFinder(graph)
    found = [finder.update_of(node) for node, op in enumerate(graph.ops) if op == ASSIGN]
    return [update for update in found if update is not None]


class _MomentumFinder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = graph.producers()
        self.readers: dict[int, list[int]] = defaultdict(list)
        for node in range(len(graph)):
            for tensor in graph.inputs_of(node):
                self.readers[tensor].append(node)

    def update_of(self, assignment: int) -> MomentumUpdate | None:
        """Return the momentum update that an assignment is part of, if any."""
        graph = self.graph
        slot, value = graph.inputs_of(assignment)
        shape = graph.shapes[value]
        if not shape or slot not in graph.variables or graph.variables[slot] != (graph.dtypes[value], shape):
            return None
        difference = self._made_by("Sub", value)
        if difference is None:
            return None
        kept, scaled = (self._made_by("Mul", tensor, difference) for tensor in graph.inputs_of(difference))
        if kept is None or scaled is None:
            return None
        old, gradient = self._tensor_factor(kept), self._tensor_factor(scaled)
        if old is None or gradient is None or graph.shapes[graph.inputs_of(scaled)[gradient]] != shape:
            return None
        read = self._made_by(READ, graph.inputs_of(kept)[old], kept)
        if read is None or graph.inputs_of(read)[0] != slot:
            return None
        addition, inner = self._addition(assignment, slot, value, read)
        if addition is None:
            return None
        weight = graph.inputs_of(addition)[0]
        if weight == slot or graph.variables.get(weight) != graph.variables[slot]:
            return None
        names = graph.names
        return MomentumUpdate(
            names[addition],
            tuple(names[node] for node in (read, kept, scaled, difference, assignment, *inner)),
            weight=(names[addition], 0),
            slot=(names[assignment], 0),
            rate=(names[scaled], 1 - gradient),
            gradient=(names[scaled], gradient),
            momentum=(names[kept], 1 - old),
        )

    def _made_by(self, op: str, tensor: int, reader: int | None = None) -> int | None:
        """Return the node that makes a tensor, if it has this op and `reader` alone reads it."""
        node = self.producers[tensor]
        if self.graph.ops[node] != op or (reader is not None and self.readers[tensor] != [reader]):
            return None
        return node

    def _tensor_factor(self, product: int) -> int | None:
        """Return which factor of a product is a tensor, if the other one is a scalar."""
        shapes = [self.graph.shapes[tensor] for tensor in self.graph.inputs_of(product)]
        return next((place for place in (0, 1) if shapes[1 - place] == () and shapes[place] != ()), None)

    def _addition(self, assignment: int, slot: int, value: int, read: int) -> tuple[int | None, list[int]]:
        """Return the node that adds the new value to the weight, and the reads of the slot for it."""
        graph = self.graph
        again = [node for node in self.readers[slot] if node not in (assignment, read)]
        others = [node for node in self.readers[value] if node != assignment]
        if len(again) + len(others) != 1:
            return None, []
        added = value
        if again:
            if graph.ops[again[0]] != READ or assignment not in graph.controls_of(again[0]):
                return None, []
            added = graph.first_output[again[0]]
            others = self.readers[added]
        is_addition = len(others) == 1 and graph.ops[others[0]] == ADD and graph.inputs_of(others[0])[1] == added
        return (others[0], again) if is_addition else (None, [])
