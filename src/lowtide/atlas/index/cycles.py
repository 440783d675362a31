"""Cycles in a graph, which no executor can run."""

from __future__ import annotations

import numpy as np

from lowtide.atlas.index.arrays import Column, csr_entries
from lowtide.atlas.index.references import MISSING

_CHUNK = 1 << 20


def count_cyclic_nodes(
    first_input: Column, inputs: Column, first_reader: Column, readers: Column, position: Column
) -> int:
    """Count the nodes on a cycle or downstream of one. A file in topological order has none."""
    if _is_in_order(first_input, inputs, position):
        return 0
    waiting = np.diff(first_input.astype(np.int64))
    missing = np.flatnonzero(inputs == MISSING)
    np.subtract.at(waiting, np.searchsorted(first_input, missing, side="right") - 1, 1)
    done = 0
    ready = np.flatnonzero(waiting == 0)
    while len(ready):
        done += len(ready)
        places, _ = csr_entries(first_reader, ready)
        following = readers[places]
        np.subtract.at(waiting, following, 1)
        following = np.unique(following)
        ready = following[waiting[following] == 0].astype(np.int64)
    return len(waiting) - done


def _is_in_order(first_input: Column, inputs: Column, position: Column) -> bool:
    for low in range(0, len(position), _CHUNK):
        high = min(low + _CHUNK, len(position))
        sources = inputs[int(first_input[low]) : int(first_input[high])]
        reader = np.repeat(
            position[low:high], np.asarray(np.diff(first_input[low : high + 1].astype(np.int64)), np.int64)
        )
        known = sources != MISSING
        if (position[sources[known]] >= reader[known]).any():
            return False
    return True
