"""Columns in files: written piece by piece, mapped into memory when they are read."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]

# More would take more memory, and wait for each other: between one call of NumPy and the next only one can work.
_THREADS = 2


class MappedFile:
    """A file as an array of bytes, whose pages are given back to the system once they have been read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        size = path.stat().st_size
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        self.data: npt.NDArray[np.uint8] = (
            np.zeros(0, np.uint8) if self._map is None else np.frombuffer(self._map, np.uint8)
        )

    def forget(self) -> None:
        """Give back what was read so far: a file larger than memory is walked in a few megabytes."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file; arrays that still look at it keep the mapping alive."""
        self.data = np.zeros(0, np.uint8)
        self._file.close()


class ColumnWriter:
    """Columns of a folder that grow, each in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}
        self.dtypes: dict[str, str] = {}

    def append(self, name: str, values: Column) -> None:
        """Add values to the end of a column."""
        if name not in self._files:
            self._files[name] = (self.folder / name).open("wb")
            self.dtypes[name] = values.dtype.str
        if values.dtype.str != self.dtypes[name]:
            raise TypeError(f"column {name} holds {self.dtypes[name]}, not {values.dtype.str}")
        np.ascontiguousarray(values).tofile(self._files[name])

    def write(self, name: str, values: Column) -> None:
        """Write a whole column."""
        if name in self._files:
            self._files.pop(name).close()
        self.dtypes[name] = values.dtype.str
        with (self.folder / name).open("wb") as file:
            np.ascontiguousarray(values).tofile(file)

    def read(self, name: str) -> Column:
        """A column that was written so far, in memory."""
        if name not in self.dtypes:
            return np.zeros(0, np.uint8)
        self.flush(name)
        return np.fromfile(self.folder / name, self.dtypes[name])

    def open(self, name: str) -> Column:
        """A column that was written so far, mapped."""
        self.flush(name)
        return open_column(self.folder / name, self.dtypes[name])

    def flush(self, name: str) -> None:
        """Write what is still held back of a column."""
        if name in self._files:
            self._files[name].flush()

    def rename(self, name: str, other: str) -> None:
        """Let a column take the place of another one; whoever has that one open keeps what he sees."""
        if name in self._files:
            self._files.pop(name).close()
        if other in self._files:
            self._files.pop(other).close()
        self.dtypes[other] = self.dtypes.pop(name)
        (self.folder / name).replace(self.folder / other)

    def drop(self, name: str) -> None:
        """Remove a column that was needed on the way only."""
        if name in self._files:
            self._files.pop(name).close()
        if self.dtypes.pop(name, None) is not None:
            (self.folder / name).unlink()

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()


def open_column(path: Path, dtype: str) -> Column:
    """Map a column; one of nothing cannot be mapped and is empty."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype)
    column: Column = np.memmap(path, dtype, "r")
    # A plain view: every slice of a memmap object costs some microseconds.
    return column.view(np.ndarray)


def release(column: Column) -> None:
    """Give back the memory of what was read of a mapped column; it is read again when it is needed."""
    base: object = column
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def trim_memory() -> None:
    """Give freed memory back to the system, where its allocator can: glibc keeps what each thread has freed."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def csr_entries(first: Column, rows: Column) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the entries of `rows` stand in a column of compressed rows, one after the other, and how many each has."""
    starts = first[rows].astype(np.int64)
    counts = first[rows + 1].astype(np.int64) - starts
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    return np.arange(total) + np.repeat(starts - before, counts), counts


def distinct(numbers: Column) -> npt.NDArray[np.int64]:
    """The distinct numbers in ascending order; by sorting, which for many of them takes a fraction of `np.unique`."""
    in_order = np.sort(numbers)
    is_new = np.ones(len(in_order), np.bool_)
    is_new[1:] = in_order[1:] != in_order[:-1]
    return in_order[is_new].astype(np.int64)


def smallest_dtype(count: int) -> npt.DTypeLike:
    """The dtype that takes the fewest bytes and has so many numbers from 0 on."""
    return np.min_scalar_type(max(count - 1, 0))


def offsets(counts: Column) -> npt.NDArray[np.int64]:
    """Where each row of so many entries begins, and where the last one ends."""
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return first


def find_sorted(known: Column, wanted: Column) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which of the wanted values are among the known ones, which ascend, and where the first such one stands there."""
    if not len(known):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # In ascending order the same places of a large column are looked at one after the other.
    rows = np.argsort(wanted)
    wanted = wanted[rows]
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found = np.flatnonzero(known[place] == wanted)
    return rows[found], place[found]


def run_in_threads(work: Callable[[int], None], items: Iterable[int]) -> None:
    """Do the work for each of some items, two at a time: NumPy lets another thread work while it is busy."""
    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(work, items):
            pass
