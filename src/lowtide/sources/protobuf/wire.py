"""Protocol buffers' wire format: enough to read a message without its generated classes."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# The end of a message that extends to the end of its file, which may be cut.
OPEN_END = 1 << 48

Buffer = bytes | mmap


class WireError(ValueError):
    """Bytes that are not a protocol buffer, or end in the middle of one."""


def read_varint(data: Buffer | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned integer; return it with the position after it."""
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
            shift += 7
            if shift > 63:
                raise WireError(f"a number at byte {position} is longer than 64 bits")
    except IndexError:
        raise WireError("the data end in the middle of a number") from None


def signed(value: int) -> int:
    """Return the int64 that was written as this unsigned number."""
    return value - (1 << 64) if value >> 63 else value


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield each field's number and value: an int for a varint, else the raw bytes."""
    for number, kind, value, end in walk(data, 0, len(data)):
        yield number, value if kind == VARINT else data[value:end]


def walk(data: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield each field's number, wire type, value (of a varint) or start of its bytes, and end.

    Nothing is copied, so a field can be larger than memory. If the data end before `end`, the walk stops there; a cut
    field has its expected end. The last bytes of cut data may raise a WireError.
    """
    position, stop = start, min(end, len(data))
    while position < stop:
        tag, position = read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise WireError(f"a field without a number at byte {position}")
        if kind == VARINT:
            value, position = read_varint(data, position)
            yield number, kind, value, position
            continue
        if kind == BYTES:
            length, position = read_varint(data, position)
        elif kind == FIXED64:
            length = 8
        elif kind == FIXED32:
            length = 4
        else:
            raise WireError(f"unknown wire type {kind} at byte {position}")
        if position + length > end:
            raise WireError(f"the data end in the middle of a field, at byte {position}")
        yield number, kind, position, position + length
        position += length


def walk_inside(data: Buffer, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each message, string or bytes with this field number."""
    for found, kind, first, last in walk(data, start, end):
        if found == number and kind == BYTES:
            yield first, last


def read_text(data: Buffer, start: int, end: int, longest: int = 200) -> str:
    """Return the text in a byte range; a longer one than `longest` is cut."""
    text = data[start : min(end, start + longest)].decode("utf-8", "replace")
    return f"{text}…" if end - start > longest else text
