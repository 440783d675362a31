"""Protocol buffers' wire format: enough to read a message without its generated classes."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """Bytes that are not a protocol buffer, or end in the middle of one."""


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned integer; returns it with the position behind it."""
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
    """The int64 that was written as this unsigned number."""
    return value - (1 << 64) if value >> 63 else value


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield each field's number and value: int for a varint, the raw bytes for all else."""
    position, end = 0, len(data)
    while position < end:
        tag, position = read_varint(data, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = read_varint(data, position)
            yield tag >> 3, value
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
            raise WireError("the data end in the middle of a field")
        yield tag >> 3, data[position : position + length]
        position += length
