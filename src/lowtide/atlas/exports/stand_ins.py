"""Stand-ins for outputs that were left out but are still read: placeholders of the same name, dtype and shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cuts.selection import CONSTANTS
from lowtide.atlas.exports.node_patch import SMALL_BYTES, WHOLE, Patch, patch_node
from lowtide.atlas.exports.output_dtypes import gives_reference, output_dtype
from lowtide.atlas.exports.output_shapes import OutputShapes
from lowtide.atlas.index.arrays import Bytes, Column, Indices
from lowtide.atlas.index.node_spans import GRAPH_NODE
from lowtide.atlas.index.outputs import VALUE_SHAPE
from lowtide.atlas.node_message import read_node
from lowtide.sources.protobuf.encode import dtype_attribute, encode_bytes, encode_integer, encode_node

_FLOAT = 1
_UNKNOWN_SHAPE = encode_integer(3, 1)


@dataclass(frozen=True)
class StandIn:
    """A node without inputs and with one output."""

    name: str
    op: str
    dtype: int
    shape: bytes
    """A serialized TensorShapeProto."""
    copied: bytes | None = None
    """The node itself if it is a small constant on which shapes depend."""

    def encode(self) -> bytes:
        """Encode the node as a field of a GraphDef."""
        if self.copied is not None:
            return encode_bytes(GRAPH_NODE, self.copied)
        attributes = {"dtype": dtype_attribute(self.dtype), "shape": encode_bytes(VALUE_SHAPE, self.shape)}
        return encode_node(self.name, self.op, (), attributes)


def make_stand_ins(
    atlas: Atlas, data: Bytes, shapes: OutputShapes, node: Indices, port: Indices, reader: Indices
) -> tuple[list[StandIn], dict[tuple[int, int], str]]:
    """Return a stand-in for each output that is read, and their names by node and port."""
    pairs, first = np.unique(node << 16 | port, return_index=True)
    node, port, reader = pairs >> 16, pairs & 0xFFFF, reader[first]
    place, is_known = shapes.place(node, port)
    names = {}
    made = []
    columns = (node, port, reader, place, is_known)
    for name, each, at, reads, shape, known in zip(
        atlas.names(node), *(column.tolist() for column in columns), strict=True
    ):
        own = name if at == 0 else _free_name(atlas, f"{name}_output_{at}")
        names[each, at] = own
        content = data[shapes.start[shape] : shapes.end[shape]].tobytes() if known else _UNKNOWN_SHAPE
        dtype = output_dtype(atlas, data, each, at) or int(atlas.dtype[reads]) or _FLOAT
        op = "VariableV2" if gives_reference(atlas, data, each, at) else "Placeholder"
        made.append(StandIn(own, op, dtype, content, _copy_of_constant(atlas, data, each)))
    return made, names


def _copy_of_constant(atlas: Atlas, data: Bytes, node: int) -> bytes | None:
    """Return a small integer constant without its control inputs; None for other nodes.

    Sizes and axes are such constants, and without their values TensorFlow refuses many of the nodes that read them.
    """
    start, end = atlas.bytes_in_file(node)
    if atlas.op_of(node) not in CONSTANTS or int(atlas.dtype[node]) not in WHOLE or end - start > SMALL_BYTES:
        return None
    waits = dict.fromkeys(range(len(atlas.inputs_of(node))))
    return patch_node(data[start:end].data, Patch(waits, is_cut=True))[0]


def missing_stand_ins(atlas: Atlas, place: Indices, reader: Indices) -> list[StandIn]:
    """Return a stand-in for each name that inputs refer to but no node has."""
    made: dict[str, StandIn] = {}
    for at, reads in zip(place.tolist(), reader.tolist(), strict=True):
        inputs = read_node(atlas, reads).inputs
        name = inputs[at].partition(":")[0] if at < len(inputs) else ""
        if name:
            made.setdefault(name, StandIn(name, "Placeholder", _dtype_of(atlas.dtype, reads), _UNKNOWN_SHAPE))
    return list(made.values())


def _dtype_of(dtype: Column, reader: int) -> int:
    return int(dtype[reader]) or _FLOAT


def _free_name(atlas: Atlas, name: str) -> str:
    while atlas.find(name) is not None:
        name += "_"
    return name
