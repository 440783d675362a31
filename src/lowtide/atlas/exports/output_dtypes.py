"""The dtype of any output of a node, by the declaration of its op and the node's attributes.

`op_outputs.txt` has the declarations of TensorFlow's registry of ops, a line for ops whose outputs are declared alike,
and after the colon the ops. An output is the number of a dtype or the name of an attribute that holds one, with its
default; `N*T` are N outputs of dtype T, `*Tout` an output for each dtype of a list, and `&` marks references of
TensorFlow 1. `python -m tests.tf.op_outputs` writes the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Bytes
from lowtide.atlas.index.node_spans import NODE_ATTRIBUTE
from lowtide.atlas.index.outputs import LIST_TYPE, VALUE_LIST, VALUE_TYPE, read_attributes
from lowtide.atlas.index.text import hash_text
from lowtide.sources.protobuf.wire import BYTES, VARINT
from lowtide.sources.protobuf.wire_columns import scan

_VALUE_INTEGER = 3
_DECLARATION = re.compile(r"(?:(?P<number>\w+)\*)?(?P<list>\*)?(?P<type>\w+)(?:=(?P<default>\d+))?(?P<reference>&)?")
# An attribute's hashed name and kind of value, and the value: a number, or the span of a list.
_Attributes = dict[tuple[int, int, int], tuple[int, int]]


@dataclass(frozen=True)
class _DeclaredOutput:
    """One declared output, or several of them."""

    number: str | None
    """The attribute with the number of outputs."""
    is_list: bool
    type: str
    """The attribute with the dtype, or the dtype itself."""
    default: int
    is_reference: bool

    def dtypes(self, data: Bytes, attributes: _Attributes) -> list[int]:
        """Return the dtypes of the outputs in a node with these attributes."""
        key = hash_text(self.type)
        if self.is_list:
            span = attributes.get((key, VALUE_LIST, BYTES))
            return _types(data, *span) if span else []
        count = 1
        if self.number is not None:
            count = attributes.get((hash_text(self.number), _VALUE_INTEGER, VARINT), (1, 0))[0]
        if self.type.isdigit():
            return [int(self.type)] * count
        return [attributes.get((key, VALUE_TYPE, VARINT), (self.default, 0))[0]] * count


def output_dtype(atlas: Atlas, data: Bytes, node: int, port: int) -> int:
    """Return TensorFlow's number for the dtype of an output; 0 where it is unknown."""
    return _find(atlas, data, node, port)[0] or int(atlas.dtype[node])


def gives_reference(atlas: Atlas, data: Bytes, node: int, port: int) -> bool:
    """Return whether an output is a TensorFlow 1 reference to a variable, which a placeholder cannot replace."""
    return _find(atlas, data, node, port)[1]


def _find(atlas: Atlas, data: Bytes, node: int, port: int) -> tuple[int, bool]:
    outputs = _declared_outputs().get(atlas.op_of(node), ())
    attributes = _attributes(atlas, data, node)
    each: Iterator[tuple[int, bool]] = (
        (dtype, output.is_reference) for output in outputs for dtype in output.dtypes(data, attributes)
    )
    return next((found for at, found in enumerate(each) if at == port), (0, False))


@cache
def _declared_outputs() -> dict[str, tuple[_DeclaredOutput, ...]]:
    declared = {}
    for line in files(__package__).joinpath("op_outputs.txt").read_text("ascii").splitlines():
        outputs, _, ops = line.partition(":")
        read = tuple(
            _DeclaredOutput(
                each["number"], bool(each["list"]), each["type"], int(each["default"] or 0), bool(each["reference"])
            )
            for each in _DECLARATION.finditer(outputs)
        )
        declared.update(dict.fromkeys(ops.split(), read))
    return declared


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
