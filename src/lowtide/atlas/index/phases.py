"""The phases of a training step, and the edges from which the phase of each node is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.arrays import Column, Indices, Mask, csr_entries
from lowtide.atlas.index.references import CONTROL, MISSING

FORWARD, BACKWARD, OPTIMIZER = range(3)
PHASES = ("forward", "backward", "optimizer")

Phases = npt.NDArray[np.uint8]

# Nodes whose edges are looked at together.
_ROWS = 1 << 14


@dataclass(frozen=True)
class PhaseGraph:
    """The edges of a graph, and what decides the phases of its nodes."""

    first_input: Column
    inputs: Column
    ports: Column
    first_reader: Column
    readers: Column
    roles: npt.NDArray[np.uint32]
    """The roles of each node's op, flags of `op_roles`."""
    is_gradient: Mask
    has_nested_gradients: bool
    """Whether there are gradients of gradients, by the names of their scopes."""

    def __len__(self) -> int:
        return len(self.roles)

    def has_role(self, nodes: Indices, roles: int) -> Mask:
        """Return whether each node has one of the roles."""
        return np.asarray(self.roles[nodes] & np.uint32(roles) != 0)

    def have_role(self, roles: int) -> Mask:
        """Return whether each node of the graph has one of the roles."""
        return np.asarray(self.roles & np.uint32(roles) != 0)

    def with_role(self, roles: int) -> Indices:
        """Return the nodes that have one of the roles."""
        return np.flatnonzero(self.roles & np.uint32(roles))

    def data_edges(self, rows: Indices) -> tuple[Indices, Indices, Mask]:
        """Return reader and source of the data inputs of some nodes, and whether each is the reader's first input."""
        places, counts = csr_entries(self.first_input, rows)
        reader, source = np.repeat(rows, counts), self.inputs[places]
        is_data = (self.ports[places] != CONTROL) & (source != MISSING)
        reader, source, places = reader[is_data], source[is_data].astype(np.int64), places[is_data]
        return reader, source, places == self.first_input[reader]


class ControlEdges:
    """The control edges of a graph."""

    def __init__(self, graph: PhaseGraph) -> None:
        places = np.flatnonzero(graph.ports == CONTROL)
        source = graph.inputs[places]
        places, source = places[source != MISSING], source[source != MISSING]
        self.source = source
        self.reader = (np.searchsorted(graph.first_input, places, side="right") - 1).astype(np.uint32)
        self.is_reader = np.zeros(len(graph), np.bool_)
        """Whether each node has control inputs."""
        self.is_reader[self.reader] = True


def chunks(nodes: Indices) -> Iterator[Indices]:
    """Split nodes so that the edges of a piece take a few megabytes."""
    for low in range(0, len(nodes), _ROWS):
        yield nodes[low : low + _ROWS]
