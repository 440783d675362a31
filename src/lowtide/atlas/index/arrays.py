"""Types of the arrays that the atlas computes with, and operations on sorted, ragged and compressed (CSR) arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.uint32]
Int32s = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


def offsets(counts: Column) -> Indices:
    """Return the start of each row with the given number of entries, and the end of the last row."""
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return first


def expand_ranges(starts: Column, counts: Column) -> Indices:
    """Concatenate the ranges `starts[i]`, `starts[i] + 1`, ... of `counts[i]` numbers each."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(starts - before, counts), np.int64)


def csr_entries(first: Column, rows: Column) -> tuple[Indices, Indices]:
    """Return the indices of all entries of some rows of a CSR column, and the number of entries of each row."""
    starts = first[rows].astype(np.int64)
    counts = first[rows + 1].astype(np.int64) - starts
    return expand_ranges(starts, counts), counts


def any_of_rows(marks: Mask, counts: Column) -> Mask:
    """Return whether an entry of each row is marked, for concatenated rows of `counts[i]` entries."""
    marked, ends = offsets(marks), np.cumsum(counts)
    return np.asarray(marked[ends] > marked[ends - counts])


def run_starts(values: Column) -> Mask:
    """Mark the first element of each run of equal values."""
    is_start = np.ones(len(values), np.bool_)
    is_start[1:] = values[1:] != values[:-1]
    return is_start


def sorted_unique(values: Column) -> Indices:
    """Return the distinct values in ascending order. For large arrays this is several times faster than `np.unique`."""
    ascending = np.sort(values)
    return ascending[run_starts(ascending)].astype(np.int64, copy=False)


def smallest_dtype(count: int) -> npt.DTypeLike:
    """Return the smallest unsigned dtype that holds the numbers 0 to `count - 1`."""
    return np.min_scalar_type(max(count - 1, 0))


def find_sorted(known: Column, wanted: Column) -> tuple[Indices, Indices]:
    """Return which of the wanted values occur in the ascending `known`, and the index of the first match of each."""
    if not len(known):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Ascending lookups touch neighbouring pages of a large column one after the other.
    rows = np.argsort(wanted)
    wanted = wanted[rows]
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found = np.flatnonzero(known[place] == wanted)
    return rows[found], place[found]
