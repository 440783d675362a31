"""The dtype of any output of a node, by the declaration of its op and the node's attributes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Bytes
from lowtide.atlas.index.declared_outputs import DeclaredOutput, declared_outputs
from lowtide.atlas.index.node_spans import NODE_ATTRIBUTE
from lowtide.atlas.index.outputs import LIST_TYPE, VALUE_LIST, VALUE_TYPE, read_attributes
from lowtide.atlas.index.text import hash_text
from lowtide.sources.protobuf.wire import BYTES, VARINT
from lowtide.sources.protobuf.wire_columns import scan

_VALUE_INTEGER = 3
# An attribute's hashed name and kind of value, and the value: a number, or the span of a list.
_Attributes = dict[tuple[int, int, int], tuple[int, int]]


def output_dtype(atlas: Atlas, data: Bytes, node: int, port: int) -> int:
    """Return TensorFlow's number for the dtype of an output; 0 where it is unknown."""
    return _find(atlas, data, node, port)[0] or int(atlas.dtype[node])


def gives_reference(atlas: Atlas, data: Bytes, node: int, port: int) -> bool:
    """Return whether an output is a TensorFlow 1 reference to a variable, which a placeholder cannot replace."""
    return _find(atlas, data, node, port)[1]


def _find(atlas: Atlas, data: Bytes, node: int, port: int) -> tuple[int, bool]:
    outputs = declared_outputs().get(atlas.op_of(node), ())
    attributes = _attributes(atlas, data, node)
    each: Iterator[tuple[int, bool]] = (
        (dtype, output.is_reference) for output in outputs for dtype in _dtypes_of(output, data, attributes)
    )
    return next((found for at, found in enumerate(each) if at == port), (0, False))


def _dtypes_of(output: DeclaredOutput, data: Bytes, attributes: _Attributes) -> list[int]:
    """Return the dtypes of declared outputs in a node with these attributes."""
    key = hash_text(output.type)
    if output.is_list:
        span = attributes.get((key, VALUE_LIST, BYTES))
        return _types(data, *span) if span else []
    count = 1
    if output.number is not None:
        count = attributes.get((hash_text(output.number), _VALUE_INTEGER, VARINT), (1, 0))[0]
    return [attributes.get((key, VALUE_TYPE, VARINT), (output.default, 0))[0]] * count


def _attributes(atlas: Atlas, data: Bytes, node: int) -> _Attributes:
    start, end = atlas.bytes_in_file(node)
    read = read_attributes(data, scan(data, np.array([start]), np.array([end])).of(NODE_ATTRIBUTE))
    value = read.value
    columns = (read.key[value.owner], value.number, value.kind, value.start, value.end)
    return {
        (key, number, kind): (first, last)
        for key, number, kind, first, last in zip(*(column.tolist() for column in columns), strict=True)
    }


def _types(data: Bytes, start: int, end: int) -> list[int]:
    """Read a list of dtypes, packed as numbers below 128 or as one field each."""
    fields = scan(data, np.array([start]), np.array([end]))
    packed = fields.of(LIST_TYPE)
    types = [int(byte) for low, high in zip(packed.start, packed.end, strict=True) for byte in data[low:high]]
    return types or fields.of(LIST_TYPE, VARINT).start.tolist()
