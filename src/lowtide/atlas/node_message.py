"""One node as serialized in the file: inputs, shapes and attributes. Large values are summarised, not loaded."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.node_spans import NODE, NODE_ATTRIBUTE, NODE_INPUT
from lowtide.atlas.index.outputs import ENTRY_KEY, ENTRY_VALUE, FUNCTION_NAME, OUTPUT_SHAPES
from lowtide.program.dtypes import dtype_name
from lowtide.sources.protobuf.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, read_varint, signed
from lowtide.units import format_count

# Longer values are described by their size.
SHOWN_BYTES = 1024
# The number of elements shown of a list or a tensor.
_SHOWN_ITEMS = 12

Shape = tuple[int | None, ...] | None

_LIST, _TEXT, _INTEGER, _FLOAT, _FLAG, _TYPE, _SHAPE, _TENSOR, _PLACEHOLDER, _FUNCTION = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute as text, and the bytes of its value in the file."""

    name: str
    text: str
    bytes: int
    folded: bool
    """Whether only a part of the value is shown."""


@dataclass(slots=True)
class NodeMessage:
    """The parsed content of a node."""

    inputs: list[str] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)


def read_node(atlas: Atlas, node: int) -> NodeMessage:
    """Read one node from the file; of a damaged one, the fields before the damage."""
    start, end = atlas.bytes_in_file(node)
    found = NodeMessage()
    with atlas.source.path.open("rb") as file:
        reader = _MessageReader(file)
        if atlas.made_from[node] != NODE:
            return found
        try:
            for number, kind, first, last in reader.fields(start, end):
                if number == NODE_INPUT and kind == BYTES:
                    found.inputs.append(reader.text(first, last))
                elif number == NODE_ATTRIBUTE and kind == BYTES:
                    _read_attribute(reader, first, last, found)
        except WireError:
            pass
    found.attributes.sort(key=lambda attribute: (attribute.name.startswith("_"), attribute.name))
    return found


class _MessageReader:
    """Reads a file field by field; long contents are skipped."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def bytes(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        return self._file.read(end - start)

    def text(self, start: int, end: int, most: int = SHOWN_BYTES) -> str:
        return self.bytes(start, min(end, start + most)).decode(errors="replace")

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield number, kind, start and end of each field; for a varint the value instead of the start."""
        position = start
        while position < end:
            head = self.bytes(position, min(position + 20, end))
            tag, at = read_varint(head, 0)
            number, kind = tag >> 3, tag & 7
            if kind == VARINT:
                value, at = read_varint(head, at)
                yield number, kind, signed(value), position + at
                position += at
                continue
            if kind == BYTES:
                length, at = read_varint(head, at)
            elif kind in (FIXED64, FIXED32):
                length = 8 if kind == FIXED64 else 4
            else:
                raise WireError(f"unknown wire type {kind}")
            first, position = position + at, position + at + length
            if position > end:
                raise WireError("the field ends after its message")
            yield number, kind, first, position


def _read_attribute(reader: _MessageReader, start: int, end: int, node: NodeMessage) -> None:
    name, value = "", None
    for number, kind, first, last in reader.fields(start, end):
        if number == ENTRY_KEY and kind == BYTES:
            name = reader.text(first, last)
        elif number == ENTRY_VALUE and kind == BYTES:
            value = (first, last)
    if value is None:
        return
    first, last = value
    if name == OUTPUT_SHAPES:
        node.shapes = _list_of_shapes(reader, first, last)
    try:
        text = _value_text(reader, first, last)
    except WireError:
        text = "damaged"
    folded = last - first > SHOWN_BYTES
    node.attributes.append(Attribute(name, text, last - first, folded))


def _value_text(reader: _MessageReader, start: int, end: int) -> str:
    for number, kind, first, last in reader.fields(start, end):
        if number == _LIST:
            return _list_text(reader, first, last)
        if number == _TENSOR:
            return _tensor_text(reader, first, last)
        return _single_text(reader, number, kind, first, last)
    return ""


def _single_text(reader: _MessageReader, number: int, kind: int, first: int, last: int) -> str:
    if number == _TEXT:
        return _quoted(reader.bytes(first, min(last, first + SHOWN_BYTES)), last - first)
    if number == _INTEGER:
        return str(first)
    if number == _FLOAT and kind == FIXED32:
        return f"{struct.unpack('<f', reader.bytes(first, last))[0]:g}"
    if number == _FLAG:
        return "true" if first else "false"
    if number == _TYPE:
        return dtype_name(first)
    if number == _SHAPE:
        return shape_text(_shape(reader, first, last))
    if number in (_PLACEHOLDER, _FUNCTION):
        named = [
            reader.text(low, high) for field_, _, low, high in reader.fields(first, last) if field_ == FUNCTION_NAME
        ]
        return named[0] if named else ""
    return format_count(last - first, "byte")


def _quoted(content: bytes, length: int) -> str:
    """Return bytes as text if they are UTF-8, else their size."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return format_count(length, "byte")


# ListValue has the same field numbers as AttrValue, except for functions.
_LIST_FUNCTION = 9


def _list_text(reader: _MessageReader, start: int, end: int) -> str:
    shown: list[str] = []
    total = 0
    for number, kind, first, last in reader.fields(start, end):
        for text in _list_items(reader, number, kind, first, last):
            total += 1
            if len(shown) < _SHOWN_ITEMS:
                shown.append(text)
        if total > 100_000:
            return f"[{', '.join(shown)}, … more than {total:,}]"
    more = f", … {total:,} in all" if total > len(shown) else ""
    return f"[{', '.join(shown)}{more}]"


def _list_items(reader: _MessageReader, number: int, kind: int, first: int, last: int) -> Iterator[str]:
    if kind == BYTES and number in (_INTEGER, _FLAG, _TYPE):
        packed, at = reader.bytes(first, min(last, first + (1 << 16))), 0
        while at < len(packed):
            value, at = read_varint(packed, at)
            yield _single_text(reader, number, VARINT, signed(value), 0)
    elif kind == BYTES and number == _FLOAT:
        packed = reader.bytes(first, min(last, first + (1 << 16)))
        yield from (f"{value:g}" for (value,) in struct.iter_unpack("<f", packed[: len(packed) // 4 * 4]))
    elif number == _LIST_FUNCTION:
        yield _single_text(reader, _FUNCTION, kind, first, last)
    elif number == _TENSOR:
        yield _tensor_text(reader, first, last)
    else:
        yield _single_text(reader, number, kind, first, last)


_TENSOR_DTYPE, _TENSOR_SHAPE, _TENSOR_CONTENT = 1, 2, 4
# The encoding of the elements of a TensorProto, by field: fixed size, or varints.
_FIXED_ELEMENTS = {5: "<f", 6: "<d"}
_VARINT_ELEMENTS = (7, 10, 11)
_CONTENT_FORMATS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "uint8": "B", "int8": "b", "bool": "?"}


def _tensor_text(reader: _MessageReader, start: int, end: int) -> str:
    """Return dtype, shape and the first elements, where they are numbers."""
    dtype = 0
    shape: Shape = ()
    values: list[str] = []
    for number, kind, first, last in reader.fields(start, end):
        if number == _TENSOR_DTYPE and kind == VARINT:
            dtype = first
        elif number == _TENSOR_SHAPE and kind == BYTES:
            shape = _shape(reader, first, last)
        elif len(values) < _SHOWN_ITEMS:
            values += _element_texts(reader, dtype_name(dtype), number, kind, first, last)
    described = f"{dtype_name(dtype)} {shape_text(shape)}".strip()
    return f"{described}: {', '.join(values)}" if values else described


def _element_texts(reader: _MessageReader, dtype: str, number: int, kind: int, first: int, last: int) -> list[str]:
    """Return the first elements in one field of a TensorProto."""
    if number == _TENSOR_CONTENT and kind == BYTES:
        return _fixed_texts(reader, _CONTENT_FORMATS.get(dtype), first, last)
    if number in _FIXED_ELEMENTS and kind in (BYTES, FIXED32, FIXED64):
        return _fixed_texts(reader, _FIXED_ELEMENTS[number][1:], first, last)
    if number in _VARINT_ELEMENTS and kind == VARINT:
        return [str(first)]
    if number in _VARINT_ELEMENTS and kind == BYTES:
        packed, at = reader.bytes(first, min(last, first + 10 * _SHOWN_ITEMS)), 0
        texts: list[str] = []
        while at < len(packed) and len(texts) < _SHOWN_ITEMS:
            value, at = read_varint(packed, at)
            texts.append(str(signed(value)))
        return texts
    return []


def _fixed_texts(reader: _MessageReader, code: str | None, first: int, last: int) -> list[str]:
    if code is None:
        return []
    size = struct.calcsize(f"<{code}")
    count = min((last - first) // size, _SHOWN_ITEMS)
    values = struct.unpack(f"<{count}{code}", reader.bytes(first, first + count * size))
    more = ["…"] if (last - first) // size > count else []
    return [f"{value:g}" if isinstance(value, float) else str(value) for value in values] + more


def _list_of_shapes(reader: _MessageReader, start: int, end: int) -> list[Shape]:
    shapes: list[Shape] = []
    for number, kind, first, last in reader.fields(start, end):
        if number != _LIST or kind != BYTES:
            continue
        for inner, inner_kind, low, high in reader.fields(first, last):
            if inner == _SHAPE and inner_kind == BYTES:
                shapes.append(_shape(reader, low, high))
                if len(shapes) >= SHOWN_BYTES:
                    return shapes
    return shapes


def _shape(reader: _MessageReader, start: int, end: int) -> Shape:
    sizes: list[int | None] = []
    for number, kind, first, last in reader.fields(start, end):
        if number == 3 and kind == VARINT and first:
            return None
        if number == 2 and kind == BYTES:
            size = 0
            for inner, inner_kind, value, _ in reader.fields(first, last):
                if inner == 1 and inner_kind == VARINT:
                    size = value
            sizes.append(size if size >= 0 else None)
            if len(sizes) > 254:
                return None
    return tuple(sizes)


def shape_text(shape: Shape) -> str:
    """Format a shape: "32×64" with "?" for unknown dimensions, "scalar", or "" if the shape is unknown."""
    if shape is None:
        return ""
    return "×".join("?" if size is None else str(size) for size in shape) or "scalar"
