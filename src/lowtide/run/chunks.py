"""From recorded events to chunks: what lay where, from when to when, and whose it was.

The first window begins with an empty allocator. A later one begins in the middle of a life: what was there before is
known from what the window frees, from the addresses that Python knew, and from what the window before left behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.run.record import NOWHERE_KNOWN, Place, Window
from lowtide.simulator.bfc import round_up
from lowtide.sources.profiles.xplane import AllocationRecord, KernelRecord, Profile


@dataclass(eq=False)
class Chunk:
    """One allocation, from the event that made it to the event that freed it; None where the window saw neither."""

    address: int | None
    allocated: int
    requested: int
    operation: str | None = None
    region: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    born: int | None = None
    died: int | None = None
    place: Place | None = None
    identified: bool = True

    def is_alive_at(self, event: int) -> bool:
        """Whether it is there after so many events."""
        return (self.born is None or self.born < event) and (self.died is None or self.died >= event)


@dataclass(frozen=True, eq=False)
class Stretch:
    """One window: its events, where its marks lie among them, and every chunk that it saw."""

    window: Window
    events: AllocationRecord
    marks: dict[int, int]
    """How many events came before each mark."""
    chunks: list[Chunk]
    bytes_before: int
    kernels: KernelRecord
    moments: dict[int, int]
    """The time of each mark, by the clock of the kernels."""

    def alive_at_end(self) -> list[Chunk]:
        return [chunk for chunk in self.chunks if chunk.died is None]


def follow(windows: Sequence[Window], profiles: Sequence[Profile], allocator: str) -> list[Stretch]:
    """The windows of a run, one after the other."""
    stretches: list[Stretch] = []
    left: list[Chunk] = []
    outside: set[int] = set()
    for window, profile in zip(windows, profiles, strict=True):
        events = _of_allocator(profile.allocations, allocator)
        marks = _positions(events, profile)
        before = _bytes_before(events)
        is_whole = not stretches and before == 0
        start = [] if is_whole else _alive_before(window, events, marks, left, before, outside)
        chunks = _follow_window(window, events, marks, start)
        moments = {mark.number: mark.time_ps for mark in profile.marks}
        stretch = Stretch(window, events, marks, chunks, before, profile.kernels, moments)
        if is_whole:
            # Every allocation was seen, so what lies elsewhere is not the allocator's.
            held = {chunk.address for chunk in stretch.chunks}
            outside = {place.address for places in window.places.values() for place in places} - held
        stretches.append(stretch)
        left = stretch.alive_at_end()
    return stretches


def busiest_allocator(profiles: Iterable[Profile]) -> str | None:
    """The allocator of the device that the steps run on: the one that gave out most."""
    most: dict[str, int] = {}
    for profile in profiles:
        events = profile.allocations
        for allocator in set(events.allocator):
            chosen = np.array([each == allocator for each in events.allocator])
            most[allocator] = max(most.get(allocator, 0), int(events.bytes_in_use[chosen].max()))
    return max(most, key=lambda name: most[name]) if most else None


def _of_allocator(events: AllocationRecord, allocator: str) -> AllocationRecord:
    rows = [row for row, name in enumerate(events.allocator) if name == allocator]
    return events if len(rows) == len(events) else events.take(rows)


def _positions(events: AllocationRecord, profile: Profile) -> dict[int, int]:
    # Events are in the allocator's order, which is that of time but for clocks that disagree by a little.
    times = np.maximum.accumulate(events.time_ps) if len(events) else events.time_ps
    return {mark.number: int(np.searchsorted(times, mark.time_ps)) for mark in profile.marks}


def _follow_window(window: Window, events: AllocationRecord, marks: dict[int, int], start: list[Chunk]) -> list[Chunk]:
    live = {chunk.address: chunk for chunk in start if chunk.address is not None}
    chunks = list(start)
    # Nothing may have happened between two of them.
    looked = ((marks[number], places) for number, places in sorted(window.places.items()) if number in marks)
    lookups = sorted(looked, key=lambda lookup: lookup[0])
    waiting = 0
    is_allocation, address = events.is_allocation.tolist(), events.address.tolist()
    allocated, requested = events.allocated_bytes.tolist(), events.requested_bytes.tolist()
    for event in range(len(events)):
        while waiting < len(lookups) and lookups[waiting][0] <= event:
            _claim(live, lookups[waiting][1])
            waiting += 1
        if is_allocation[event]:
            chunk = Chunk(
                address[event], allocated[event], requested[event], events.operation[event],
                events.region_type[event], events.dtype[event], events.shape[event], born=event,
            )  # fmt: skip
            live[address[event]] = chunk
            chunks.append(chunk)
        else:
            freed = live.pop(address[event], None)
            if freed is not None:
                freed.died = event
    for _, places in lookups[waiting:]:
        _claim(live, places)
    return chunks


def _bytes_before(events: AllocationRecord) -> int:
    if not len(events):
        return 0
    change = int(events.allocated_bytes[0]) * (1 if events.is_allocation[0] else -1)
    return int(events.bytes_in_use[0]) - change


def _claim(live: dict[int, Chunk], places: Iterable[Place]) -> None:
    """Give chunks to the variables and arguments that lie in them now."""
    for place in places:
        chunk = live.get(place.address)
        # An argument may be a variable's own value.
        if chunk is not None and place.bytes <= chunk.allocated and (chunk.place is None or place.kind != "input"):
            chunk.place = place


def _alive_before(
    window: Window,
    events: AllocationRecord,
    marks: dict[int, int],
    left: list[Chunk],
    before: int,
    outside: set[int],
) -> list[Chunk]:
    """What is in the allocator when the window opens."""
    earlier = {chunk.address: chunk for chunk in left}
    first_event: dict[int, int] = {}
    for event, address in enumerate(events.address.tolist()):
        first_event.setdefault(address, event)
    found: dict[int | None, Chunk] = {}
    for address, event in first_event.items():
        if not events.is_allocation[event]:
            size = int(events.allocated_bytes[event])
            found[address] = _as_before(earlier.get(address), address, size, int(events.requested_bytes[event]))
    opening = min((number for number in window.places if number in marks), default=None)
    opened = window.places.get(opening, ()) if opening is not None else ()
    somewhere = [place for place in opened if place.address == NOWHERE_KNOWN]
    seen = sorted({*first_event, *(address for address in found if address is not None)})
    rest = before - sum(chunk.allocated for chunk in found.values())
    # An array of NumPy's may serve as a tensor where it is: nothing of the allocator's, and far from what is.
    for place in sorted(opened, key=lambda place: _distance(seen, place.address)):
        # What was made or freed inside the window is known from its event.
        if place.address in first_event or place.address in found or place.address == NOWHERE_KNOWN:
            continue
        known = earlier.get(place.address)
        is_same = known is not None and known.requested == place.bytes
        size = known.allocated if known is not None and is_same else round_up(place.bytes)
        if size <= rest and (is_same or _may_be_inside(place, seen, outside)):
            chunk = found[place.address] = _as_before(known, place.address, size, place.bytes)
            chunk.place = place
            rest -= size
    return _fill_up(found, left, somewhere, events, before)


def _distance(seen: Sequence[int], address: int) -> int:
    """How far it is to the nearest of these addresses."""
    position = bisect_left(seen, address)
    return min((abs(address - each) for each in seen[max(position - 1, 0) : position + 1]), default=0)


def _may_be_inside(place: Place, seen: Sequence[int], outside: set[int]) -> bool:
    """Whether a place that no event speaks of may be the allocator's; an argument is so only among its chunks."""
    if place.address in outside:
        return False
    return place.kind != "input" or (len(seen) > 0 and seen[0] <= place.address <= seen[-1])


def _as_before(earlier: Chunk | None, address: int, allocated: int, requested: int) -> Chunk:
    """The chunk that the window before saw there, if it is the same; else one of which only the size is known."""
    if earlier is None or (earlier.allocated, earlier.requested) != (allocated, requested):
        return Chunk(address, allocated, requested, identified=False)
    return Chunk(
        address, allocated, requested, earlier.operation, earlier.region, earlier.dtype, earlier.shape,
        place=earlier.place,
    )  # fmt: skip


def _fill_up(
    found: dict[int | None, Chunk], left: list[Chunk], somewhere: list[Place], events: AllocationRecord, before: int
) -> list[Chunk]:
    """Add what the window before left behind, as far as the bytes in use allow, and name the rest as not known."""
    chunks = list(found.values())
    rest = before - sum(chunk.allocated for chunk in chunks)
    taken = _Extents([(chunk.address or 0, chunk.allocated) for chunk in chunks])
    used = _Extents(list(zip(events.address.tolist(), events.allocated_bytes.tolist(), strict=True)))
    for chunk in left:
        if chunk.address is None or chunk.address in found or chunk.allocated > rest:
            continue
        if not taken.touches(chunk.address, chunk.allocated) and not used.touches(chunk.address, chunk.allocated):
            chunks.append(_as_before(chunk, chunk.address, chunk.allocated, chunk.requested))
            rest -= chunk.allocated
    staying = {chunk.requested: chunk for chunk in chunks[len(found) :] if chunk.place is None}
    for place in somewhere:
        size = round_up(place.bytes)
        alike = staying.pop(place.bytes, None)
        if alike is not None:
            alike.place = place
        elif size <= rest:
            chunks.append(Chunk(None, size, place.bytes, place=place))
            rest -= size
    if rest > 0:
        chunks.append(Chunk(None, rest, rest, identified=False))
    return chunks


class _Extents:
    """Ranges of addresses, to be asked whether one touches another."""

    def __init__(self, extents: list[tuple[int, int]]) -> None:
        extents = sorted(extents)
        self.starts = [start for start, _ in extents]
        self.ends: list[int] = []
        highest = 0
        for start, size in extents:
            highest = max(highest, start + size)
            self.ends.append(highest)

    def touches(self, start: int, size: int) -> bool:
        position = bisect_left(self.starts, start + size)
        return position > 0 and self.ends[position - 1] > start
