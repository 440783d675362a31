"""The type of an array in a file, whose rows can be read without loading it as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.errors import LowtideError
from lowtide.feed.readers.samples import Indices, Rows
from lowtide.feed.readers.unpacked_files import UnpackedFile

# The overhead of one text in a tensor.
TEXT_BYTES = 24
# The number of rows that are copied at a time from an array that is not contiguous.
_COPIED_ROWS = 256


@dataclass(frozen=True)
class ArrayFile:
    """An array whose rows are samples."""

    name: str
    """The name for messages."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    """In native byte order; object for texts of variable length."""
    block: int
    """The number of rows that have to be read together: 1 if each row can be read by itself."""
    read: Callable[[Indices, Rows], None]
    """Reads the rows of the given indices, in that order, into an array."""
    is_mapped: bool = False
    """Whether the rows are memory, so that reading cannot fail."""
    text_bytes: int | None = None
    """The approximate size of the longest text, for texts of variable length."""
    unpacked: UnpackedFile | None = None
    """The uncompressed copy, if the array was compressed."""
    loading_bytes: int = 0
    """The working memory of reading a block, besides its rows."""

    @property
    def item_bytes(self) -> int:
        """The size of one number or text."""
        if self.text_bytes is not None:
            return self.text_bytes + TEXT_BYTES
        return self.dtype.itemsize + (TEXT_BYTES if self.dtype.kind in "SU" else 0)

    @property
    def row_bytes(self) -> int:
        """The size of one row."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.item_bytes


def from_rows(rows: Rows, name: str, unpacked: UnpackedFile | None = None) -> ArrayFile:
    """Wrap an array in memory, or a memory map, of which only the rows that are taken are read."""
    plain = rows.view(np.ndarray)
    native = native_type(plain.dtype)
    # `take` copies the whole array first if it is not contiguous or not aligned. Viewed as bytes it is always aligned.
    is_bytes = plain.flags.c_contiguous and plain.ndim and plain.size and not plain.dtype.hasobject
    raw = plain.reshape(len(plain), -1).view(np.uint8) if is_bytes else None

    def read(indices: Indices, out: Rows) -> None:
        if raw is not None:
            # All indices are valid. With mode="raise" NumPy would write to a temporary array first.
            raw.take(indices, axis=0, out=out.reshape(len(out), -1).view(np.uint8), mode="clip")
            if plain.dtype != native:
                out.byteswap(inplace=True)
            return
        for low in range(0, len(indices), _COPIED_ROWS):
            out[low : low + _COPIED_ROWS] = plain[indices[low : low + _COPIED_ROWS]]

    return ArrayFile(name, tuple(rows.shape), native, 1, read, is_mapped=True, unpacked=unpacked)


def native_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same type in native byte order, which TensorFlow expects."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def choose_array(path: str, inner: str, role: str, names: list[str]) -> str:
    """Choose among the arrays of a file: the one named `inner`, the only one, or the one named like the role."""
    if inner:
        wanted = [name for name in names if name.strip("/") == inner.strip("/")]
    else:
        wanted = names if len(names) == 1 else [name for name in names if name == role]
    if not wanted:
        listed = ", ".join(names[:8]) or "none"
        raise LowtideError(
            f"which array of {path} is {role}?",
            given=inner or role,
            cure=f"name it, as in {path}:NAME; it has {listed}",
        )
    return wanted[0]
