"""OutputShapes of outputs as they lie in the file, of many nodes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cuts.cut import Indices, Mask
from lowtide.atlas.index.columns import offsets
from lowtide.atlas.index.outputs import read_attributes, read_shapes
from lowtide.atlas.index.text import Bytes, hash_spans, hash_text
from lowtide.sources.protobuf.wire_columns import scan

NODE_ATTRIBUTE = 5
_CHUNK = 1 << 15


@dataclass(frozen=True)
class OutputShapes:
    """Of some nodes the shapes of their outputs: each is a serialized TensorShapeProto in the file."""

    atlas: Atlas
    data: Bytes
    nodes: Indices
    """In ascending order."""
    first: Indices
    start: Indices
    end: Indices
    hashes: npt.NDArray[np.uint64]

    def place(self, node: Indices, port: Indices) -> tuple[Indices, Mask]:
        """Where the shape of an output stands among all, and whether it is known."""
        row = np.searchsorted(self.nodes, node)
        place = self.first[row] + port
        return place, place < self.first[row + 1]

    def is_whole(self, node: Indices) -> Mask:
        """Whether every size in the shape of a node's first output is known, and its dtype."""
        _, known = self.place(node, np.zeros(len(node), np.int64))
        tensor = self.atlas.first_tensor[node].astype(np.int64)
        known &= tensor < self.atlas.first_tensor[node + 1]
        known[known] = self.atlas.column("tensor_sized")[tensor[known]]
        return known

    def hash(self, node: Indices) -> npt.NDArray[np.uint64]:
        """A number for the shape of a first output that is whole."""
        return self.hashes[self.place(node, np.zeros(len(node), np.int64))[0]]


def read_output_shapes(atlas: Atlas, data: Bytes, nodes: Indices) -> OutputShapes:
    """Read the shapes of some nodes, which are in ascending order."""
    op_hash = np.array([hash_text(op) for op in atlas.ops], np.uint64)
    start, length = atlas.column("start"), atlas.column("length")
    counts, starts, ends = [], [], []
    for low in range(0, len(nodes), _CHUNK):
        some = nodes[low : low + _CHUNK]
        begin = start[some]
        attributes = read_attributes(data, scan(data, begin, begin + length[some]).of(NODE_ATTRIBUTE))
        value = attributes.value
        owner, key = attributes.owner[value.owner], attributes.key[value.owner]
        found = read_shapes(data, owner, key, value, op_hash[atlas.op[some]])
        # The list of all outputs is better than what a node says of its value.
        has_list = np.zeros(len(some), np.bool_)
        has_list[found.owner[found.is_list]] = True
        chosen = np.flatnonzero(found.is_list | ~has_list[found.owner])
        chosen = chosen[np.argsort(found.owner[chosen], kind="stable")]
        counts.append(np.bincount(found.owner[chosen], minlength=len(some)))
        starts.append(found.start[chosen])
        ends.append(found.end[chosen])
    none = [np.zeros(0, np.int64)]
    all_starts, all_ends = np.concatenate(starts or none), np.concatenate(ends or none)
    return OutputShapes(
        atlas,
        data,
        nodes,
        offsets(np.concatenate(counts or none)),
        all_starts,
        all_ends,
        hash_spans(data, all_starts, all_ends),
    )
