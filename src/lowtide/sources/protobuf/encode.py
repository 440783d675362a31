"""Writing protocol buffers: the parts needed to write GraphDefs without generated classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lowtide.sources.protobuf.wire import BYTES, VARINT


def encode_varint(value: int) -> bytes:
    """Return a 64-bit integer as a varint; a negative one as its two's complement."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_tag(number: int, kind: int = BYTES) -> bytes:
    """Return the tag of a field."""
    return encode_varint(number << 3 | kind)


def encode_bytes(number: int, content: bytes | bytearray | str) -> bytes:
    """Return a field with a message, a string or bytes."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return b"".join((encode_tag(number), encode_varint(len(data)), data))


def encode_integer(number: int, value: int) -> bytes:
    """Return a field with an integer."""
    return encode_tag(number, VARINT) + encode_varint(value)


def encode_node(name: str, op: str, inputs: Iterable[str], attributes: Mapping[str, bytes]) -> bytes:
    """Return a node as a field of a GraphDef; each attribute is a serialized AttrValue."""
    content = bytearray(encode_bytes(1, name) + encode_bytes(2, op))
    for each in inputs:
        content += encode_bytes(3, each)
    for key, value in attributes.items():
        content += encode_bytes(5, encode_bytes(1, key) + encode_bytes(2, value))
    return encode_bytes(1, content)


def text_attribute(text: str) -> bytes:
    """Return an AttrValue with a string."""
    return encode_bytes(2, text)


def dtype_attribute(number: int) -> bytes:
    """Return an AttrValue with a data type."""
    return encode_integer(6, number)


def shapes_attribute(shapes: Iterable[tuple[int | None, ...] | None]) -> bytes:
    """Return an AttrValue with a list of shapes; an unknown size or an unknown shape is None."""
    content = bytearray()
    for shape in shapes:
        sizes = encode_integer(3, 1) if shape is None else b"".join(_dimension(size) for size in shape)
        content += encode_bytes(7, sizes)
    return encode_bytes(1, content)


def _dimension(size: int | None) -> bytes:
    return encode_bytes(2, encode_integer(1, -1 if size is None else size))
