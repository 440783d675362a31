"""Sizes and constants that TensorFlow created for a gradient, and what they belong to.

They carry no gradient. TensorFlow's optimizers merge equal nodes, so that the forward pass reads the constant or the
size that was created for the backward pass.
"""

from __future__ import annotations

import numpy as np

from lowtide.atlas.index.arrays import Mask, csr_entries, sorted_unique
from lowtide.atlas.index.op_roles import (
    ARGUMENT,
    CALL,
    CAST,
    CONSTANT,
    FILL,
    GRADIENT,
    INTEGER,
    READ,
    SHAPE,
    VARIABLE,
)
from lowtide.atlas.index.phases import BACKWARD, FORWARD, PhaseGraph, Phases, chunks


def find_sizes(graph: PhaseGraph) -> Mask:
    """Mark constants, shapes, and integers, casts and fills that are computed from them alone."""
    is_size = graph.have_role(CONSTANT | SHAPE)
    is_open = graph.have_role(INTEGER | CAST | FILL) & ~is_size
    is_open &= ~graph.have_role(CALL | READ | VARIABLE | ARGUMENT | GRADIENT)
    frontier = np.flatnonzero(is_size)
    while len(frontier):
        found = []
        for rows in chunks(frontier):
            places, _ = csr_entries(graph.first_reader, rows)
            readers = graph.readers[places]
            readers = sorted_unique(readers[is_open[readers] & ~is_size[readers]])
            reader, source, _ = graph.data_edges(readers)
            readers = np.setdiff1d(readers, reader[~is_size[source]], assume_unique=True)
            is_size[readers] = True
            found.append(readers)
        frontier = np.concatenate(found)
    return is_size


def assign_sizes(graph: PhaseGraph, phase: Phases, sizes: Mask) -> None:
    """Assign sizes of gradients that no node of the forward pass reads to the backward pass."""
    nodes = np.flatnonzero(sizes & (phase == FORWARD))
    while len(nodes):
        places, counts = csr_entries(graph.first_reader, nodes)
        readers, node = graph.readers[places], np.repeat(nodes, counts)
        unread = np.setdiff1d(nodes, node[phase[readers] == FORWARD], assume_unique=False)
        if not len(unread):
            break
        phase[unread] = BACKWARD
        nodes = np.setdiff1d(nodes, unread, assume_unique=True)
