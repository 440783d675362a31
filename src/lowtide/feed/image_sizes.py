"""The width and height of an image file from its first bytes."""

from __future__ import annotations

import struct
from typing import BinaryIO

# The markers of a JPEG that begin a frame; the others in between are tables.
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_MOST_SEGMENTS = 1_000


def read_size(path: str) -> tuple[int, int] | None:
    """The height and width of a PNG, GIF, BMP or JPEG; None if it is none of these, or damaged."""
    try:
        with open(path, "rb") as file:
            head = file.read(32)
            if head.startswith(b"\x89PNG\r\n\x1a\n"):
                width, height = struct.unpack(">II", head[16:24])
            elif head[:4] == b"GIF8":
                width, height = struct.unpack("<HH", head[6:10])
            elif head[:2] == b"BM":
                width, height = struct.unpack("<ii", head[18:26])
            elif head[:2] == b"\xff\xd8":
                return _jpeg_size(file)
            else:
                return None
            return abs(height), abs(width)
    except (OSError, struct.error):
        return None


def _jpeg_size(file: BinaryIO) -> tuple[int, int] | None:
    position = 2
    for _ in range(_MOST_SEGMENTS):
        file.seek(position)
        marker, kind, length = struct.unpack(">BBH", file.read(4))
        if marker != 0xFF:
            return None
        if kind in _FRAMES:
            _, height, width = struct.unpack(">BHH", file.read(5))
            return height, width
        position += 2 + length
    return None
