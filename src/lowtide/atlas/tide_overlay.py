"""Tensors of a tide in a graph: by name, and what each node holds of the memory that the tide tells of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Floats, Indices
from lowtide.tide.explain import alive_at
from lowtide.tide.tide import Tide

PEAK, PRODUCED, LIFETIME, RECOMPUTED = "peak", "produced", "lifetime", "recomputed"
COLOUR_MODES = (PEAK, PRODUCED, LIFETIME, RECOMPUTED)

# What a planned step computes again has the name of the original and this behind it.
_AGAIN = "/again"


def find_tensor_nodes(atlas: Atlas, tensors: Sequence[str]) -> list[int | None]:
    """The node of each tensor of a tide; None where the graph has none.

    The graph that ran is not the one that was written: functions were inlined, which put the names of calls before
    others, and optimizers added names of their own. So the name is looked for as it is, then with one part of its
    beginning after the other left out, in every part of the graph.
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
    """What each node of a graph holds by a tide: an amount that screens sum and colour by."""

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

    def __call__(self, nodes: Indices) -> Floats:
        """The amounts of some nodes."""
        running = np.concatenate([[0.0], np.cumsum(self._amount)])
        low = np.searchsorted(self._node, nodes)
        high = np.searchsorted(self._node, nodes, side="right")
        amounts: Floats = running[high] - running[low]
        return amounts


def _amounts(tide: Tide, rows: Indices, colour: str) -> Floats:
    buffers = tide.buffers
    if colour == LIFETIME:
        return (buffers.died[rows] - buffers.born[rows]).astype(np.float64)
    if colour == RECOMPUTED:
        return np.array([float(_AGAIN in buffers.name[row]) for row in rows.tolist()])
    return buffers.allocated[rows].astype(np.float64)
