"""Reads the shapes of arrays in `.npy` and `.npz` files from their headers, without the data."""

from __future__ import annotations

import ast
import math
import struct
import zipfile
from pathlib import Path
from typing import IO

Header = tuple[tuple[int, ...], int]
"""The shape of an array and the bytes of one element."""


def read_header(path: Path) -> Header | None:
    """Return the shape and the bytes of an element of an array in an .npy file, or of the largest in an .npz file."""
    try:
        if path.suffix == ".npy":
            with path.open("rb") as file:
                return _read_npy_header(file)
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                found = []
                for name in archive.namelist():
                    with archive.open(name) as member:
                        found.append(_read_npy_header(member))
            known = [each for each in found if each is not None]
            return max(known, key=lambda each: math.prod(each[0]) * each[1], default=None)
    except (OSError, ValueError, SyntaxError, KeyError, struct.error, zipfile.BadZipFile):
        return None
    return None


def _read_npy_header(file: IO[bytes]) -> Header | None:
    if file.read(6) != b"\x93NUMPY":
        return None
    version = file.read(2)
    length = struct.unpack("<H", file.read(2))[0] if version[0] == 1 else struct.unpack("<I", file.read(4))[0]
    header = ast.literal_eval(file.read(min(length, 1 << 16)).decode("latin1"))
    kind = header["descr"]
    if not isinstance(kind, str):
        return None
    unit = 4 if kind[1] == "U" else 1
    return tuple(int(each) for each in header["shape"]), int(kind[2:]) * unit
