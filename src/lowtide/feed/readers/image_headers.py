"""Read the size and type of an image from the first bytes of its file."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

# The JPEG markers that begin a frame; the other markers in this range are tables.
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
# The frames of progressive JPEGs.
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
_MOST_SEGMENTS = 1_000


@dataclass(frozen=True)
class ImageHeader:
    """The size and type of an image."""

    height: int
    width: int
    is_jpeg: bool = False
    is_progressive: bool = False


def read_header(path: str) -> ImageHeader | None:
    """Read the header of a PNG, GIF, BMP or JPEG; None for other files, and for damaged ones."""
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
                return _read_jpeg(file)
            else:
                return None
            return ImageHeader(abs(height), abs(width))
    except (OSError, struct.error):
        return None


def _read_jpeg(file: BinaryIO) -> ImageHeader | None:
    position = 2
    for _ in range(_MOST_SEGMENTS):
        file.seek(position)
        marker, kind, length = struct.unpack(">BBH", file.read(4))
        if marker != 0xFF:
            return None
        if kind in _FRAMES:
            _, height, width = struct.unpack(">BHH", file.read(5))
            return ImageHeader(height, width, True, kind in _PROGRESSIVE)
        position += 2 + length
    return None
