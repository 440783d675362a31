"""The address space of a recorded step: used and free addresses at each event, and the buffers between free blocks.

A tide has the addresses of its buffers, not of the allocator's regions. So the address space is what the step itself
shows: all addresses that a buffer covers at some event. A gap that no buffer ever covers may belong to another user of
the process' memory, or to a region that an earlier step needed. As these cannot be distinguished, both are left out:
free bytes are never overestimated, and two regions never count as one block. `Recording.fragmentation` is the
allocator's own figure, which knows the regions.

One kind of gap is known to be free: within a region all chunks start at multiples of 256 bytes, and two regions are at
least a page apart, or their headers break that multiple. So a gap of a multiple of 256 bytes below a page is the
unused end of a chunk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from lowtide.errors import LowtideError
from lowtide.simulator.bfc import GRANULE_BYTES
from lowtide.tide.columns import TideColumns

_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Extent:
    """A contiguous range of addresses."""

    start: int
    bytes: int

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.start + self.bytes


@dataclass(frozen=True)
class Occupancy:
    """The address space at one event: used ranges and the holes between them, from low to high."""

    used: tuple[Extent, ...]
    holes: tuple[Extent, ...]

    @property
    def free_bytes(self) -> int:
        """The bytes in holes."""
        return sum(hole.bytes for hole in self.holes)

    @property
    def largest_hole_bytes(self) -> int:
        """The largest request that fits without a new region."""
        return max((hole.bytes for hole in self.holes), default=0)

    @property
    def fragmentation(self) -> float:
        """The share of the free bytes outside the largest hole; 0 if nothing is free."""
        return 1 - self.largest_hole_bytes / self.free_bytes if self.holes else 0.0


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """The free space after each event of the step."""

    free_bytes: npt.NDArray[np.int64]
    largest_hole_bytes: npt.NDArray[np.int64]

    @property
    def fragmentation(self) -> npt.NDArray[np.float64]:
        """The share of the free bytes outside the largest hole, after each event."""
        return 1 - np.where(self.free_bytes > 0, self.largest_hole_bytes / np.maximum(self.free_bytes, 1), 1.0)


@dataclass(frozen=True)
class Pinning:
    """One or several adjacent buffers between two holes, smaller than either hole."""

    name: str
    """The name of the buffer among them that is freed last."""
    layer: str | None
    bytes: int
    hole_bytes: int
    """Both holes together."""
    buffers: int
    """The number of adjacent buffers."""
    row: int


def spans_of(tide: TideColumns) -> tuple[Extent, ...]:
    """Return the ranges of the address space that the step uses, from low to high."""
    rows = placed_rows(tide)
    if not rows.size:
        return ()
    addresses = _addresses(tide)
    rows = rows[np.argsort(addresses[rows], kind="stable")]
    starts = addresses[rows]
    ends = np.maximum.accumulate(starts + tide.buffers.allocated[rows])
    gaps = starts[1:] - ends[:-1]
    cuts = np.flatnonzero((gaps >= _PAGE_BYTES) | ((gaps > 0) & (gaps % GRANULE_BYTES != 0)))
    first, last = [0, *(cuts + 1).tolist()], [*cuts.tolist(), len(rows) - 1]
    return tuple(Extent(int(starts[low]), int(ends[high] - starts[low])) for low, high in zip(first, last, strict=True))


def placed_rows(tide: TideColumns) -> npt.NDArray[np.intp]:
    """Return the rows of the buffers with a size and a lifetime above zero."""
    _addresses(tide)
    return np.flatnonzero((tide.buffers.allocated > 0) & (tide.buffers.died > tide.buffers.born))


def occupancy_at(tide: TideColumns, event: int) -> Occupancy:
    """Return the used and free ranges after `event`."""
    used: list[Extent] = []
    holes: list[Extent] = []
    for span, runs in _runs_by_span(tide, event):
        below = span.start
        for run in runs:
            if run.extent.start > below:
                holes.append(Extent(below, run.extent.start - below))
            used.append(run.extent)
            below = run.extent.end
        if span.end > below:
            holes.append(Extent(below, span.end - below))
    return Occupancy(tuple(used), tuple(holes))


def free_space(tide: TideColumns) -> FreeSpace:
    """Return the free space after every event of the step."""
    buffers, addresses, rows = tide.buffers, _addresses(tide), placed_rows(tide)
    events = len(tide.curve)
    # A chunk may be reused in the event that freed it, so the frees of an event come first.
    when = np.concatenate([buffers.died[rows], buffers.born[rows]])
    takes = np.repeat([False, True], len(rows))
    order = np.lexsort((takes, when))
    row_of = np.concatenate([rows, rows])[order].tolist()
    holes = _Holes(spans_of(tide))
    free, largest = np.zeros(events, np.int64), np.zeros(events, np.int64)
    position = 0
    ends = np.searchsorted(when[order], np.arange(events), side="right").tolist()
    take = takes[order].tolist()
    for event in range(events):
        for index in range(position, ends[event]):
            start = int(addresses[row_of[index]])
            end = start + int(buffers.allocated[row_of[index]])
            if take[index]:
                holes.allocate(start, end)
            else:
                holes.free(start, end)
        position = ends[event]
        free[event], largest[event] = holes.free_bytes, holes.largest()
    return FreeSpace(free, largest)


def pinnings_at(tide: TideColumns, event: int, count: int = 3) -> tuple[Pinning, ...]:
    """Return the buffers that separate holes after `event`, those with the largest smaller hole first."""
    found: list[tuple[int, Pinning]] = []
    for span, runs in _runs_by_span(tide, event):
        for position, run in enumerate(runs):
            below = run.extent.start - (runs[position - 1].extent.end if position else span.start)
            above = (runs[position + 1].extent.start if position + 1 < len(runs) else span.end) - run.extent.end
            lost = min(below, above)
            if run.extent.bytes <= lost:
                found.append((lost, _pinning(tide, run, below + above)))
    found.sort(key=lambda item: -item[0])
    return tuple(pinning for _, pinning in found[:count])


@dataclass(frozen=True)
class _AdjacentBuffers:
    """Adjacent buffers, with no free space between them."""

    extent: Extent
    rows: tuple[int, ...]


def _pinning(tide: TideColumns, run: _AdjacentBuffers, hole_bytes: int) -> Pinning:
    buffers = tide.buffers
    row = max(run.rows, key=lambda row: (int(buffers.died[row]), int(buffers.allocated[row])))
    return Pinning(buffers.name[row], buffers.layer[row], run.extent.bytes, hole_bytes, len(run.rows), row)


def _runs_by_span(tide: TideColumns, event: int) -> Iterable[tuple[Extent, list[_AdjacentBuffers]]]:
    buffers, addresses = tide.buffers, _addresses(tide)
    rows = placed_rows(tide)
    rows = rows[(buffers.born[rows] <= event) & (event < buffers.died[rows])]
    rows = rows[np.argsort(addresses[rows], kind="stable")]
    starts = addresses[rows]
    for span in spans_of(tide):
        inside = rows[np.searchsorted(starts, span.start) : np.searchsorted(starts, span.end)]
        yield span, _join(inside.tolist(), addresses, buffers.allocated)


def _join(rows: list[int], addresses: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> list[_AdjacentBuffers]:
    runs: list[_AdjacentBuffers] = []
    members: list[int] = []
    start = end = 0
    for row in rows:
        address = int(addresses[row])
        if members and address > end:
            runs.append(_AdjacentBuffers(Extent(start, end - start), tuple(members)))
            members = []
        if not members:
            start = end = address
        members.append(row)
        end = max(end, address + int(sizes[row]))
    if members:
        runs.append(_AdjacentBuffers(Extent(start, end - start), tuple(members)))
    return runs


class _Holes:
    """The free address ranges, from which ranges are allocated and freed."""

    def __init__(self, spans: Iterable[Extent]) -> None:
        self._starts = [span.start for span in spans]
        self._ends = {span.start: span.end for span in spans}
        self.free_bytes = sum(span.bytes for span in spans)
        # Holes that no longer exist stay in the heap until they reach its top.
        self._heap = [(-span.bytes, span.start) for span in spans]
        heapify(self._heap)

    def allocate(self, start: int, end: int) -> None:
        position = max(bisect_right(self._starts, start) - 1, 0)
        while position < len(self._starts) and self._starts[position] < end:
            low = self._starts[position]
            high = self._ends[low]
            if high <= start:
                position += 1
                continue
            self._remove(position)
            for left, right in ((low, min(start, high)), (max(end, low), high)):
                if right > left:
                    self._add(position, left, right)
                    position += 1

    def free(self, start: int, end: int) -> None:
        position = max(bisect_left(self._starts, start) - 1, 0)
        while position < len(self._starts) and self._starts[position] <= end:
            low = self._starts[position]
            high = self._ends[low]
            if high < start:
                position += 1
                continue
            start, end = min(start, low), max(end, high)
            self._remove(position)
        self._add(position, start, end)

    def largest(self) -> int:
        while self._heap:
            size, start = self._heap[0]
            if self._ends.get(start) == start - size:
                return -size
            heappop(self._heap)
        return 0

    def _remove(self, position: int) -> None:
        start = self._starts.pop(position)
        self.free_bytes -= self._ends.pop(start) - start

    def _add(self, position: int, start: int, end: int) -> None:
        self._starts.insert(position, start)
        self._ends[start] = end
        self.free_bytes += end - start
        heappush(self._heap, (start - end, start))


def _addresses(tide: TideColumns) -> npt.NDArray[np.int64]:
    if tide.buffers.address is None:
        raise LowtideError(
            "this tide has no addresses: it was predicted, and only recordings have them",
            given=tide.target,
            cure="record the step with lowtide run or lowtide.measure",
        )
    return tide.buffers.address
