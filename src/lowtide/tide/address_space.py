"""Where the buffers of a recorded step lie: used and free addresses at each moment, and what pins the free ones.

A tide has the addresses of its buffers, not of the regions that the allocator fetched. So what counts here
as space is what the step itself shows: the addresses that lie under a buffer at some moment of it. A gap that
no buffer ever covers may be memory that another program owns, as regions lie anywhere, or memory that was
fetched for an earlier step. Neither can be told from the other, so both are left out: free bytes are never
made up, and two regions are never taken for one block. The allocator's own figure, which knows its regions,
is `Recording.fragmentation`.

One gap is known to be free: within a region all chunks are a multiple of 256 bytes apart, and two regions are
at least a page apart, or their headers break that multiple. A multiple of 256 below a page is the rest of a chunk.
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
    """A piece of the address space."""

    start: int
    bytes: int

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.start + self.bytes


@dataclass(frozen=True)
class Occupancy:
    """The address space at one moment: what is used and, between that, the holes; both from low to high."""

    used: tuple[Extent, ...]
    holes: tuple[Extent, ...]

    @property
    def used_bytes(self) -> int:
        """All bytes that lie under a buffer."""
        return sum(extent.bytes for extent in self.used)

    @property
    def free_bytes(self) -> int:
        """All bytes in holes."""
        return sum(hole.bytes for hole in self.holes)

    @property
    def largest_hole_bytes(self) -> int:
        """The largest request that finds room without fetching more."""
        return max((hole.bytes for hole in self.holes), default=0)

    @property
    def fragmentation(self) -> float:
        """The share of the free bytes that lies outside the largest hole; 0 when nothing is free."""
        return 1 - self.largest_hole_bytes / self.free_bytes if self.holes else 0.0


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """What is free after each event of the step."""

    free_bytes: npt.NDArray[np.int64]
    largest_hole_bytes: npt.NDArray[np.int64]

    @property
    def fragmentation(self) -> npt.NDArray[np.float64]:
        """The share of the free bytes outside the largest hole, after each event."""
        return 1 - np.where(self.free_bytes > 0, self.largest_hole_bytes / np.maximum(self.free_bytes, 1), 1.0)


@dataclass(frozen=True)
class Pinning:
    """What keeps two holes from being one block: a buffer, or some side by side that are smaller than either hole."""

    name: str
    """Of those side by side, the one that stays longest."""
    layer: str | None
    bytes: int
    hole_bytes: int
    """Both holes together."""
    buffers: int
    """How many lie side by side."""
    row: int


def spans_of(tide: TideColumns) -> tuple[Extent, ...]:
    """Return the pieces of the address space that the step uses, from low to high; see above for what lies between."""
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
    """Return the rows of the buffers that take any space for any time."""
    _addresses(tide)
    return np.flatnonzero((tide.buffers.allocated > 0) & (tide.buffers.died > tide.buffers.born))


def occupancy_at(tide: TideColumns, event: int) -> Occupancy:
    """Return what is used and what is free after `event`."""
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
    """Return what is free after every event of the step."""
    buffers, addresses, rows = tide.buffers, _addresses(tide), placed_rows(tide)
    events = len(tide.curve)
    # A chunk may be taken again in the event that freed it, so the frees of an event come first.
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
                holes.take(start, end)
            else:
                holes.give(start, end)
        position = ends[event]
        free[event], largest[event] = holes.free_bytes, holes.largest()
    return FreeSpace(free, largest)


def pinnings_at(tide: TideColumns, event: int, count: int = 3) -> tuple[Pinning, ...]:
    """Return what pins the holes after `event`, the widest first: by the smaller hole, as that is what is lost."""
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
class _Run:
    """Buffers side by side, with nothing free between them."""

    extent: Extent
    rows: tuple[int, ...]


def _pinning(tide: TideColumns, run: _Run, hole_bytes: int) -> Pinning:
    buffers = tide.buffers
    row = max(run.rows, key=lambda row: (int(buffers.died[row]), int(buffers.allocated[row])))
    return Pinning(buffers.name[row], buffers.layer[row], run.extent.bytes, hole_bytes, len(run.rows), row)


def _runs_by_span(tide: TideColumns, event: int) -> Iterable[tuple[Extent, list[_Run]]]:
    buffers, addresses = tide.buffers, _addresses(tide)
    rows = placed_rows(tide)
    rows = rows[(buffers.born[rows] <= event) & (event < buffers.died[rows])]
    rows = rows[np.argsort(addresses[rows], kind="stable")]
    starts = addresses[rows]
    for span in spans_of(tide):
        inside = rows[np.searchsorted(starts, span.start) : np.searchsorted(starts, span.end)]
        yield span, _join(inside.tolist(), addresses, buffers.allocated)


def _join(rows: list[int], addresses: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> list[_Run]:
    runs: list[_Run] = []
    members: list[int] = []
    start = end = 0
    for row in rows:
        address = int(addresses[row])
        if members and address > end:
            runs.append(_Run(Extent(start, end - start), tuple(members)))
            members = []
        if not members:
            start = end = address
        members.append(row)
        end = max(end, address + int(sizes[row]))
    if members:
        runs.append(_Run(Extent(start, end - start), tuple(members)))
    return runs


class _Holes:
    """Free addresses, of which pieces are taken and given back."""

    def __init__(self, spans: Iterable[Extent]) -> None:
        self._starts = [span.start for span in spans]
        self._ends = {span.start: span.end for span in spans}
        self.free_bytes = sum(span.bytes for span in spans)
        # Holes that are no longer there stay in the heap until they come up.
        self._heap = [(-span.bytes, span.start) for span in spans]
        heapify(self._heap)

    def take(self, start: int, end: int) -> None:
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

    def give(self, start: int, end: int) -> None:
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
            "this tide has no addresses: it was predicted, and only a record knows where buffers lie",
            given=tide.target,
            cure="record the step with lowtide run or lowtide.measure",
        )
    return tide.buffers.address
