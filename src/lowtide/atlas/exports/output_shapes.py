"""The shapes of the outputs of many nodes at once, as spans of the file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Bytes, Hashes, Indices, Mask, offsets
from lowtide.atlas.index.node_spans import NODE_ATTRIBUTE
from lowtide.atlas.index.outputs import read_attributes, read_shapes
from lowtide.atlas.index.text import hash_spans, hash_text
from lowtide.sources.protobuf.wire_columns import scan

_CHUNK = 1 << 15


@dataclass(frozen=True)
class OutputShapes:
    """The shapes of the outputs of some nodes, each the span of a TensorShapeProto in the file."""

    atlas: Atlas
    nodes: Indices
    """In ascending order."""
    first: Indices
    start: Indices
    end: Indices
    hashes: Hashes

    def place(self, node: Indices, port: Indices) -> tuple[Indices, Mask]:
        """Return the index of the shape of each output, and whether it is known."""
        row = np.searchsorted(self.nodes, node)
        place = self.first[row] + port
        return place, place < self.first[row + 1]

    def is_complete(self, node: Indices) -> Mask:
        """Return whether dtype and all dimensions of the first output of each node are known."""
        _, known = self.place(node, np.zeros(len(node), np.int64))
        tensor = self.atlas.first_tensor[node].astype(np.int64)
        known &= tensor < self.atlas.first_tensor[node + 1]
        known[known] = self.atlas.column("tensor_sized")[tensor[known]]
        return known

    def hash(self, node: Indices) -> Hashes:
        """Return the hash of the shape of each node's first output, which must be complete."""
        return self.hashes[self.place(node, np.zeros(len(node), np.int64))[0]]


def read_output_shapes(atlas: Atlas, data: Bytes, nodes: Indices) -> OutputShapes:
    """Read the shapes of some nodes, given in ascending order."""
    op_hash = np.array([hash_text(op) for op in atlas.ops], np.uint64)
    start, length = atlas.column("start"), atlas.column("length")
    counts, starts, ends = [], [], []
    for low in range(0, len(nodes), _CHUNK):
        some = nodes[low : low + _CHUNK]
        begin = start[some]
        attributes = read_attributes(data, scan(data, begin, begin + length[some]).of(NODE_ATTRIBUTE))
        value = attributes.value
        owner, key = attributes.owner[value.owner], attributes.key[value.owner]
        found = read_shapes(data, len(some), owner, key, value, op_hash[atlas.op[some]])
        counts.append(np.bincount(found.owner, minlength=len(some)))
        starts.append(found.start)
        ends.append(found.end)
    none = [np.zeros(0, np.int64)]
    all_starts, all_ends = np.concatenate(starts or none), np.concatenate(ends or none)
    return OutputShapes(
        atlas,
        nodes,
        offsets(np.concatenate(counts or none)),
        all_starts,
        all_ends,
        hash_spans(data, all_starts, all_ends),
    )
