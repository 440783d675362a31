"""Writing protocol buffers: what is needed to give another sort of file the form of a GraphDef."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from lowtide.sources.protobuf.wire import BYTES, FIXED32, FIXED64, VARINT

# A length of this many bytes can be written before it is known. Readers accept no more of them.
PADDED_BYTES = 5


def encode_varint(value: int) -> bytes:
    """A number of 64 bits; a negative one as its two's complement."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_padded(value: int) -> bytes:
    """A number that always takes the same room."""
    rest = [(value >> 7 * place & 0x7F) | 0x80 for place in range(PADDED_BYTES - 1)]
    return bytes((*rest, value >> 7 * (PADDED_BYTES - 1)))


def encode_tag(number: int, kind: int = BYTES) -> bytes:
    return encode_varint(number << 3 | kind)


def encode_bytes(number: int, content: bytes | bytearray | str) -> bytes:
    """A field that is a message, a text or bytes."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return b"".join((encode_tag(number), encode_varint(len(data)), data))


def encode_integer(number: int, value: int) -> bytes:
    return encode_tag(number, VARINT) + encode_varint(value)


def encode_float(number: int, value: float) -> bytes:
    return encode_tag(number, FIXED32) + pack_float(value)


def encode_double(number: int, value: float) -> bytes:
    return encode_tag(number, FIXED64) + struct.pack("<d", value)


def pack_float(value: float) -> bytes:
    """A number of 32 bits. What is too large for it is infinite, as it is for the compiler."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def encode_node(name: str, op: str, inputs: Iterable[str], attributes: Mapping[str, bytes]) -> bytes:
    """A node as a field of a GraphDef; each attribute is a serialized AttrValue."""
    content = bytearray(encode_bytes(1, name) + encode_bytes(2, op))
    for each in inputs:
        content += encode_bytes(3, each)
    for key, value in attributes.items():
        content += encode_bytes(5, encode_bytes(1, key) + encode_bytes(2, value))
    return encode_bytes(1, content)


def text_attribute(text: str) -> bytes:
    return encode_bytes(2, text)


def dtype_attribute(number: int) -> bytes:
    return encode_integer(6, number)


def shapes_attribute(shapes: Iterable[tuple[int | None, ...] | None]) -> bytes:
    """A list of shapes; a size that is not known is None, and so is a shape of which nothing is."""
    content = bytearray()
    for shape in shapes:
        sizes = encode_integer(3, 1) if shape is None else b"".join(_dimension(size) for size in shape)
        content += encode_bytes(7, sizes)
    return encode_bytes(1, content)


def _dimension(size: int | None) -> bytes:
    return encode_bytes(2, encode_integer(1, -1 if size is None else size))
