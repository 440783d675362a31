"""A tide over a graph: the node of each tensor, and the amount of memory by which each node is coloured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Floats, Indices
from lowtide.tide.explain import alive_at
from lowtide.tide.tide import Tide

PEAK, PRODUCED, LIFETIME, RECOMPUTED = "peak", "produced", "lifetime", "recomputed"
COLOUR_MODES = (PEAK, PRODUCED, LIFETIME, RECOMPUTED)

# The suffix of rematerialized nodes in a planned step.
_AGAIN = "/again"


def find_tensor_nodes(atlas: Atlas, tensors: Sequence[str]) -> list[int | None]:
    """Return the node of each tensor of a tide; None where the graph has none.

    The executed graph differs from the written one: inlining prefixes the names of calls, and graph optimizers add
    prefixes too. So each name is looked up in every part of the graph, then again without its first component, and so
    on.
    """
    found: list[int | None] = [None] * len(tensors)
    wanted = {place: tensor.partition(":")[0] for place, tensor in enumerate(tensors)}
    while wanted:
        for part in range(len(atlas.parts)):
            rows = list(wanted)
            nodes, known = atlas.find_all([wanted[row] for row in rows], part)
            for row, node, is_known in zip(rows, nodes.tolist(), known.tolist(), strict=True):
                if is_known:
                    found[row] = node
                    del wanted[row]
            if not wanted:
                break
        wanted = {row: rest for row, name in wanted.items() if (rest := name.partition("/")[2])}
    return found


class TideOverlay:
    """An amount for each node of a graph, taken from a tide; screens colour items by it.

    Bytes and counts of several tensors are added; of lifetimes the longest counts, since no sum of them is a time.
    """

    def __init__(self, atlas: Atlas, tide: Tide, colour: str) -> None:
        rows = np.arange(len(tide.buffers)) if colour != PEAK else np.array(alive_at(tide, tide.peak_event), np.int64)
        nodes = find_tensor_nodes(atlas, [tide.buffers.name[row] for row in rows.tolist()])
        known = np.array([node is not None for node in nodes], np.bool_)
        self.found = int(np.count_nonzero(known))
        self.total = len(rows)
        amount = _amounts(tide, rows, colour)
        place = np.array([0 if node is None else node for node in nodes], np.int64)
        order = np.argsort(place[known], kind="stable")
        self._node, self._amount = place[known][order], amount[known][order]
        self.is_summed = colour != LIFETIME

    def __call__(self, nodes: Indices) -> Floats:
        """Return the amounts of some nodes."""
        if not self.is_summed:
            return self._longest(nodes)
        running = np.concatenate([[0.0], np.cumsum(self._amount)])
        low = np.searchsorted(self._node, nodes)
        high = np.searchsorted(self._node, nodes, side="right")
        amounts: Floats = running[high] - running[low]
        return amounts

    def _longest(self, nodes: Indices) -> Floats:
        longest = np.zeros(len(nodes))
        if len(self._node):
            first = np.flatnonzero(np.diff(self._node, prepend=-1))
            most = np.maximum.reduceat(self._amount, first)
            place = np.minimum(np.searchsorted(self._node[first], nodes), len(first) - 1)
            is_known = self._node[first][place] == nodes
            longest[is_known] = most[place[is_known]]
        return longest


def _amounts(tide: Tide, rows: Indices, colour: str) -> Floats:
    buffers = tide.buffers
    if colour == LIFETIME:
        # Event 0 is the state before the step, and a buffer that outlives the step dies after its last event.
        last = np.minimum(buffers.died[rows], len(tide.curve.bytes_in_use))
        lifetimes: Floats = np.maximum(last - np.maximum(buffers.born[rows], 1), 0).astype(np.float64)
        return lifetimes
    if colour == RECOMPUTED:
        return np.array([float(_AGAIN in buffers.name[row]) for row in rows.tolist()])
    return buffers.allocated[rows].astype(np.float64)
