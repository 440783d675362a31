"""Patch a serialized node: replace inputs, remove colocation, empty large attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lowtide.atlas.index.node_spans import NODE_ATTRIBUTE, NODE_INPUT
from lowtide.atlas.index.outputs import (
    ENTRY_KEY,
    ENTRY_VALUE,
    LIST_FUNCTION,
    LIST_TYPE,
    VALUE_FUNCTION,
    VALUE_LIST,
    VALUE_TENSOR,
)
from lowtide.sources.protobuf.encode import encode_bytes
from lowtide.sources.protobuf.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, read_varint

# A TensorProto's dtype, shape and version; the rest is its content.
_TENSOR_HEAD = (1, 2, 3)

WHOLE = (3, 9, 10)
"""int32, int64 and bool: constants of these dtypes are sizes and axes, whose values TensorFlow needs on import"""
SMALL_BYTES = 1024
"""Attributes of at most this size are never emptied if TensorFlow needs their values."""

TOO_LARGE = "_too_large_attrs"
"""The attribute that lists emptied attributes, as in TensorBoard."""
COLOCATION = "_class"


@dataclass(frozen=True)
class Patch:
    """The changes to a node."""

    inputs: Mapping[int, str | None] = field(default_factory=dict)
    """The replacement of an input, by position; None removes it."""
    added: Sequence[str] = ()
    """Inputs to append."""
    is_cut: bool = False
    """Whether nodes were left out; then colocation with other nodes is removed."""
    limit: int | None = None
    """Attributes with more bytes are emptied."""


def patch_node(node: memoryview, patch: Patch) -> tuple[bytes, int]:
    """Return the changed node, and the number of emptied attributes."""
    pieces: list[bytes | memoryview] = []
    emptied: list[str] = []
    place = 0
    for number, kind, low, first, last in fields(node):
        if number == NODE_INPUT and kind == BYTES:
            text = patch.inputs.get(place)
            if place not in patch.inputs:
                pieces.append(node[low:last])
            elif text is not None:
                pieces.append(encode_bytes(NODE_INPUT, text))
            place += 1
        elif number == NODE_ATTRIBUTE and kind == BYTES:
            pieces.append(_attribute(node[low:last], node[first:last], patch, emptied))
        else:
            pieces.append(node[low:last])
    pieces += [encode_bytes(NODE_INPUT, text) for text in patch.added]
    if emptied:
        names = b"".join(encode_bytes(2, name) for name in emptied)
        pieces.append(encode_bytes(NODE_ATTRIBUTE, _entry(TOO_LARGE, encode_bytes(VALUE_LIST, names))))
    return b"".join(pieces), len(emptied)


def _attribute(whole: memoryview, entry: memoryview, patch: Patch, emptied: list[str]) -> bytes | memoryview:
    is_large = patch.limit is not None and len(entry) > patch.limit
    if not is_large and not patch.is_cut:
        return whole
    name, value = "", entry[:0]
    for number, kind, _, first, last in fields(entry):
        if number == ENTRY_KEY and kind == BYTES:
            name = bytes(entry[first:last]).decode(errors="replace")
        elif number == ENTRY_VALUE and kind == BYTES:
            value = entry[first:last]
    if patch.is_cut and name == COLOCATION:
        return b""
    if not is_large:
        return whole
    is_declared = not name.startswith("_")
    smaller = None if is_declared and _is_needed(value) else _emptied(value)
    if smaller is None:
        return whole
    emptied.append(name)
    # Attributes that start with an underscore are not declared by the op and may be omitted.
    return b"" if not is_declared else encode_bytes(NODE_ATTRIBUTE, _entry(name, smaller))


def _is_needed(value: memoryview) -> bool:
    """Return whether TensorFlow needs a value: all that are small, except for tensors of other dtypes than integers."""
    if len(value) > SMALL_BYTES:
        return False
    for number, _, _, first, last in fields(value):
        if number == VALUE_TENSOR:
            return any(value[first:last][low] in WHOLE for each, _, _, low, _ in fields(value[first:last]) if each == 1)
    return True


def _emptied(value: memoryview) -> bytes | None:
    """Return an empty AttrValue of the same kind; None for functions and dtypes, which determine the inputs."""
    for number, kind, _, first, last in fields(value):
        inner = value[first:last]
        if kind != BYTES or number == VALUE_FUNCTION:
            return None
        if number == VALUE_LIST and any(each[0] in (LIST_TYPE, LIST_FUNCTION) for each in fields(inner)):
            return None
        if number != VALUE_TENSOR:
            return encode_bytes(number, b"")
        # A tensor without content reads as zeros of its dtype and shape.
        kept = [inner[low:end] for field_, _, low, _, end in fields(inner) if field_ in _TENSOR_HEAD]
        return encode_bytes(VALUE_TENSOR, b"".join(kept))
    return None


def _entry(name: str, value: bytes) -> bytes:
    return encode_bytes(ENTRY_KEY, name) + encode_bytes(ENTRY_VALUE, value)


def fields(data: memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield number, kind, start, content start and end of each field, up to the first damaged one."""
    position, end = 0, len(data)
    try:
        while position < end:
            low = position
            tag, position = read_varint(data, position)
            kind = tag & 7
            first = position
            if kind == VARINT:
                _, position = read_varint(data, position)
            elif kind == BYTES:
                length, first = read_varint(data, position)
                position = first + length
            elif kind in (FIXED64, FIXED32):
                position += 8 if kind == FIXED64 else 4
            else:
                return
            if position > end:
                return
            yield tag >> 3, kind, low, first, position
    except WireError:
        return
