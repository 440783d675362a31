"""The width, height and kind of an image file from its first bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

# The markers of a JPEG that begin a frame; the others in between are tables.
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
# Those of them whose image comes in several scans.
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
_MOST_SEGMENTS = 1_000


@dataclass(frozen=True)
class ImageHead:
    """What the first bytes of an image file say."""

    height: int
    width: int
    is_jpeg: bool = False
    is_progressive: bool = False


def read_head(path: str) -> ImageHead | None:
    """The head of a PNG, GIF, BMP or JPEG; None if it is none of these, or damaged."""
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
            return ImageHead(abs(height), abs(width))
    except (OSError, struct.error):
        return None


def _read_jpeg(file: BinaryIO) -> ImageHead | None:
    position = 2
    for _ in range(_MOST_SEGMENTS):
        file.seek(position)
        marker, kind, length = struct.unpack(">BBH", file.read(4))
        if marker != 0xFF:
            return None
        if kind in _FRAMES:
            _, height, width = struct.unpack(">BHH", file.read(5))
            return ImageHead(height, width, True, kind in _PROGRESSIVE)
        position += 2 + length
    return None
