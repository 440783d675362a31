"""Bundle edges between groups of nodes: their counts and bytes, and the edges that enter or leave the groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Ids, Indices, Mask, csr_entries, expand_ranges
from lowtide.atlas.index.references import CONTROL, MISSING

# Nodes processed at a time.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of nodes, each belonging to one of `count` groups."""

    first: Indices
    last: Indices
    group: Indices
    count: int

    def chunks(self) -> Iterator[tuple[Indices, Indices]]:
        """Yield all nodes with their groups, in chunks."""
        sizes = self.last - self.first
        pieces = (np.cumsum(sizes) - 1) // _CHUNK
        for rows in np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(pieces)) + 1):
            nodes = expand_ranges(self.first[rows], sizes[rows])
            groups = np.repeat(self.group[rows], sizes[rows])
            for low in range(0, len(nodes), _CHUNK):
                yield nodes[low : low + _CHUNK], groups[low : low + _CHUNK]


@dataclass(frozen=True, slots=True)
class Bundles:
    """Edges between groups, and edges between a group and nodes outside of all groups."""

    source: Indices
    target: Indices
    count: Indices
    control: Indices
    bytes: Indices
    incoming: Indices
    incoming_bytes: Indices
    outgoing: Indices
    tensor_node: Indices
    """The node of the tensor that a bundle carries, where it carries only one; `has_one_tensor` says where."""
    tensor_port: Indices
    has_one_tensor: Mask


def bundle(atlas: Atlas, ranges: Ranges) -> Bundles:
    """Bundle the edges that start or end in any of the ranges. Edges within a group are left out."""
    low, high = int(ranges.first.min()), int(ranges.last.max())
    table = _GroupLookup(ranges, low, high)
    count = ranges.count
    edges, waits, sizes = np.zeros(count * count), np.zeros(count * count), np.zeros(count * count)
    incoming, incoming_bytes, outgoing = np.zeros(count), np.zeros(count), np.zeros(count)
    # Sums over the data edges of a bundle: of a single edge they are its node and its port.
    node_sum, port_sum = np.zeros(count * count), np.zeros(count * count)
    for nodes, groups in ranges.chunks():
        places, counts = csr_entries(atlas.first_input, nodes)
        target = np.repeat(groups, counts)
        source, port = atlas.inputs[places], atlas.input_port[places]
        known = source != MISSING
        source, port, target = source[known], port[known], target[known]
        of = table.group_of(source)
        weight = atlas.edge_bytes(source, port)
        inside = (of < count) & (of != target)
        pair = of[inside] * count + target[inside]
        edges += np.bincount(pair, minlength=count * count)
        waits += np.bincount(pair, (port[inside] == CONTROL), minlength=count * count)
        sizes += np.bincount(pair, weight[inside], minlength=count * count)
        is_data = port[inside] != CONTROL
        node_sum += np.bincount(pair[is_data], source[inside][is_data], minlength=count * count)
        port_sum += np.bincount(pair[is_data], port[inside][is_data], minlength=count * count)
        outside = of == count
        incoming += np.bincount(target[outside], minlength=count)
        incoming_bytes += np.bincount(target[outside], weight[outside], minlength=count)
        places, counts = csr_entries(atlas.first_reader, nodes)
        reading = table.group_of(atlas.readers[places]) == count
        outgoing += np.bincount(np.repeat(groups, counts)[reading], minlength=count)
        release_after_chunk(atlas, nodes)
    pairs = np.flatnonzero(edges)
    return Bundles(
        pairs // count,
        pairs % count,
        edges[pairs].astype(np.int64),
        waits[pairs].astype(np.int64),
        sizes[pairs].astype(np.int64),
        incoming.astype(np.int64),
        incoming_bytes.astype(np.int64),
        outgoing.astype(np.int64),
        node_sum[pairs].astype(np.int64),
        port_sum[pairs].astype(np.int64),
        edges[pairs] - waits[pairs] == 1,
    )


def release_after_chunk(atlas: Atlas, nodes: Indices) -> None:
    """Return the pages of the columns after a full chunk: a pass over millions of nodes reads each only once."""
    if len(nodes) == _CHUNK:
        atlas.release()


class _GroupLookup:
    """The group of each node; `ranges.count` for nodes in no group."""

    def __init__(self, ranges: Ranges, low: int, high: int) -> None:
        self._low, self._high = low, high
        self._table = np.full(high - low + 1, ranges.count, np.uint16)
        for row in range(len(ranges.first)) if len(ranges.first) < 4096 else ():
            self._table[int(ranges.first[row]) - low : int(ranges.last[row]) - low] = ranges.group[row]
        if len(ranges.first) >= 4096:
            counts = ranges.last - ranges.first
            self._table[expand_ranges(ranges.first, counts) - low] = np.repeat(ranges.group, counts)

    def group_of(self, nodes: Ids) -> Indices:
        place = nodes.astype(np.int64) - self._low
        inside = (place >= 0) & (place < self._high - self._low)
        return self._table[np.where(inside, place, self._high - self._low)].astype(np.int64)
