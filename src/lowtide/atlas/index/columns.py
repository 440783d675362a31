"""Columns in files: appended to while an index is built, memory-mapped when they are read."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.atlas.index.arrays import Bytes, Column

# More threads take more memory and wait for each other: between two NumPy calls only one of them holds the GIL.
_THREADS = 2


class MappedFile:
    """A file as an array of bytes, whose pages can be returned to the system after they were read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        size = path.stat().st_size
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        self.data: Bytes = np.zeros(0, np.uint8) if self._map is None else np.frombuffer(self._map, np.uint8)

    def release_pages(self) -> None:
        """Return the pages read so far, so that a file larger than memory is read in a few megabytes."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file; arrays that still view it keep the mapping alive."""
        self.data = np.zeros(0, np.uint8)
        self._file.close()


class ColumnWriter:
    """The columns of a folder while an index is built, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}
        self.dtypes: dict[str, str] = {}

    def append(self, name: str, values: Column) -> None:
        """Append values to a column."""
        if name not in self._files:
            self._files[name] = (self.folder / name).open("wb")
            self.dtypes[name] = values.dtype.str
        if values.dtype.str != self.dtypes[name]:
            raise TypeError(f"column {name} holds {self.dtypes[name]}, not {values.dtype.str}")
        np.ascontiguousarray(values).tofile(self._files[name])

    def write(self, name: str, values: Column) -> None:
        """Write a complete column, replacing what it held."""
        self._close(name)
        self.dtypes[name] = values.dtype.str
        with (self.folder / name).open("wb") as file:
            np.ascontiguousarray(values).tofile(file)

    def read(self, name: str) -> Column:
        """Load what was written to a column so far; a column that was never written is empty."""
        if name not in self.dtypes:
            return np.zeros(0, np.uint8)
        self.flush(name)
        return np.fromfile(self.folder / name, self.dtypes[name])

    def open(self, name: str) -> Column:
        """Map what was written to a column so far."""
        self.flush(name)
        return open_column(self.folder / name, self.dtypes[name])

    def flush(self, name: str) -> None:
        """Write the buffered values of a column to its file."""
        if name in self._files:
            self._files[name].flush()

    def rename(self, name: str, other: str) -> None:
        """Replace a column by another one; mappings of the replaced file stay valid."""
        self._close(name)
        self._close(other)
        self.dtypes[other] = self.dtypes.pop(name)
        (self.folder / name).replace(self.folder / other)

    def drop(self, name: str) -> None:
        """Remove a temporary column."""
        self._close(name)
        if self.dtypes.pop(name, None) is not None:
            (self.folder / name).unlink()

    def close(self) -> None:
        """Close all files."""
        for name in list(self._files):
            self._close(name)

    def _close(self, name: str) -> None:
        if name in self._files:
            self._files.pop(name).close()


def open_column(path: Path, dtype: str) -> Column:
    """Map a column. An empty file cannot be mapped and gives an empty array."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype)
    column: Column = np.memmap(path, dtype, "r")
    # A plain view: every slice of an np.memmap object costs some microseconds.
    return column.view(np.ndarray)


def release(column: Column) -> None:
    """Return the pages of a mapped column to the system; they are read again when needed."""
    base: object = column
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def trim_memory() -> None:
    """Return freed memory to the system: glibc keeps what each thread has freed until `malloc_trim` is called."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def run_in_threads(work: Callable[[int], None], items: Iterable[int]) -> None:
    """Call `work` for each item, two at a time: NumPy releases the GIL while it computes."""
    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(work, items):
            pass
