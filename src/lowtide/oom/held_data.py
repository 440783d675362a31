"""Advice on data that a program keeps in memory as a whole, though memory did not run out."""

from __future__ import annotations

from collections.abc import Iterable

from lowtide.oom.advice import advise
from lowtide.oom.evidence import Evidence, Request
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.owner import Owner
from lowtide.units import format_bytes

# Ops that copy arrays into a data pipeline, and the word for what no op made: an array from Python.
_COPYING_OPS = ("MakeIterator", "TensorDataset", "TensorSliceDataset")
_NO_OP = "unknown"
# Data is worth a word from this size on, and from this share of all that was held.
_SMALLEST_BYTES = 1 << 20
_NOTABLE_SHARE = 0.25
_LARGE_ARRAY_BYTES = 64 << 20


def advise_on_data(held: Iterable[Owner], arrays: Iterable[Owner], peak_bytes: int) -> tuple[str, ...]:
    """Return what to do about data among the tensors that are held at a peak, and about NumPy arrays in Python.

    What is held outside of a step is data, whichever op made it.
    """
    least = max(_SMALLEST_BYTES, round(peak_bytes * _NOTABLE_SHARE))
    data = [owner for owner in held if owner.kind == OUTSIDE or owner.op in (_NO_OP, *_COPYING_OPS)]
    lines: list[str] = []
    if sum(owner.bytes for owner in data) >= least:
        lines += advise("constant", Evidence(Request()))[:2]
    copied = sum(owner.bytes for owner in data if owner.op in _COPYING_OPS)
    if copied >= least:
        lines.append(
            f"an iterator over from_tensor_slices copies the data once more, {format_bytes(copied)} here; "
            "one over lt.feed.arrays does not"
        )
    large = [owner for owner in arrays if owner.bytes >= _LARGE_ARRAY_BYTES]
    if large:
        lines.append(
            'an array in a file takes no memory: np.load(path, mmap_mode="r") opens it, and lt.feed.arrays reads it'
        )
    return tuple(lines)
