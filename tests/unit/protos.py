"""Protocol buffers written by hand: enough to build what TensorFlow writes, byte by byte, without it."""

from __future__ import annotations

import struct

import google_crc32c


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, *content: bytes | str) -> bytes:
    data = b"".join(each.encode() if isinstance(each, str) else each for each in content)
    return varint(field << 3 | 2) + varint(len(data)) + data


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def node(name: str, op: str, *inputs: str, device: str = "", attributes: bytes = b"") -> bytes:
    """A node of a GraphDef."""
    content = message(1, name) + message(2, op) + b"".join(message(3, each) for each in inputs)
    return message(1, content + (message(4, device) if device else b"") + attributes)


VERSIONS = message(4, number(1, 2164))
GRAPH = node("x", "Placeholder") + node("y", "Relu", "x") + VERSIONS
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def event(*content: bytes) -> bytes:
    return double(1, 1e9) + b"".join(content)


FIRST_EVENT = event(message(3, "brain.Event:2"))


def summary(tag: str, plugin: str, text: bytes) -> bytes:
    """The event of one summary whose tensor is a string; TensorFlow writes its kind behind its content."""
    tensor = number(1, 7) + message(2) + message(8, text)
    metadata = message(1, message(1, plugin))
    return event(message(5, message(1, message(1, tag), message(8, tensor), message(9, metadata))))


def mask(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def checksum(data: bytes) -> bytes:
    return struct.pack("<I", mask(google_crc32c.value(data)))


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + checksum(length) + data + checksum(data)


def events(*content: bytes) -> bytes:
    """An event file."""
    return b"".join(record(each) for each in (FIRST_EVENT, *content))
