"""From recorded events to chunks: the address, lifetime and owner of each allocation.

The first window begins with an empty allocator. A later window begins with chunks whose allocation it did not see: they
are known from the chunks that the window frees, from the addresses that Python knew, and from the window before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lowtide.run.eager_ops import find_eager_ops, name_operations
from lowtide.run.record import Window
from lowtide.simulator.bfc import round_up
from lowtide.sources.profiles.xplane import AllocationRecord, KernelRecord, Profile, read_profile
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.owner import Owner


@dataclass(eq=False)
class RecordedChunk:
    """One allocation, from the event that made it to the event that freed it; None for an event outside the window."""

    address: int | None
    allocated: int
    requested: int
    operation: str | None = None
    region: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    born: int | None = None
    died: int | None = None
    owner: Owner | None = None
    """The variable or argument at this address, as Python knew it."""
    identified: bool = True
    """False if only the size is known."""
    made_by: Owner | None = None
    """The op that allocated it, if that op ran eagerly."""

    def spans(self, first: int, end: int) -> bool:
        """Whether the chunk exists before the event `first` and from the event `end` on."""
        return (self.born is None or self.born < first) and (self.died is None or self.died >= end)

    def is_alive_at(self, event: int) -> bool:
        """Whether the chunk exists after the first `event` events."""
        return (self.born is None or self.born < event) and (self.died is None or self.died >= event)


@dataclass(frozen=True, eq=False)
class Stretch:
    """One window with its events, the positions of its marks among them, and its chunks."""

    window: Window
    events: AllocationRecord
    marks: dict[int, int]
    """The number of events before each mark."""
    chunks: list[RecordedChunk]
    bytes_before: int
    kernels: KernelRecord
    moments: dict[int, int]
    """The time of each mark in picoseconds, on the clock of the kernels."""

    def alive_at(self, event: int | None = None) -> list[RecordedChunk]:
        """Return the chunks that exist after the first `event` events, or after all."""
        return [chunk for chunk in self.chunks if chunk.is_alive_at(len(self.events) if event is None else event)]

    def alive_at_end(self) -> list[RecordedChunk]:
        """Return the chunks that the window did not free."""
        return [chunk for chunk in self.chunks if chunk.died is None]


def follow(windows: Sequence[Window], profiles: Sequence[Profile], allocator: str) -> list[Stretch]:
    """Return the windows of a run with their chunks; each window starts with the chunks that the one before left."""
    stretches: list[Stretch] = []
    left: list[RecordedChunk] = []
    outside: set[int | None] = set()
    for window, profile in zip(windows, profiles, strict=True):
        events = _of_allocator(profile.allocations, allocator)
        made_by = find_eager_ops(events, profile.spans, window.eager_ops)
        events = replace(events, operation=name_operations(events.operation, made_by))
        marks = _positions(events, profile)
        before = _bytes_before(events)
        is_whole = not stretches and before == 0
        start = [] if is_whole else _alive_before(window, events, marks, left, before, outside)
        chunks = _follow_window(window, events, marks, start, made_by)
        moments = {mark.number: mark.time_ps for mark in profile.marks}
        stretch = Stretch(window, events, marks, chunks, before, profile.kernels, moments)
        if is_whole:
            # Every allocation was seen, so other addresses do not belong to the allocator.
            held = {chunk.address for chunk in stretch.chunks}
            outside = {owner.address for owners in window.owners.values() for owner in owners} - held
        stretches.append(stretch)
        left = stretch.alive_at_end()
    return stretches


def read_stretches(windows: Sequence[Window], folder: Path) -> list[Stretch]:
    """Return the windows of a run with their chunks, read from the profiles in `folder`; empty if none has events."""
    profiles = [read_profile(folder / window.profile) for window in windows]
    allocator = busiest_allocator(profiles)
    return [] if allocator is None else follow(windows, profiles, allocator)


def busiest_allocator(profiles: Iterable[Profile]) -> str | None:
    """Return the allocator of the device that the steps run on: the one with the most bytes in use."""
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
    # Events are in the allocator's order, which is the order of time except for small differences between clocks.
    times = np.maximum.accumulate(events.time_ps) if len(events) else events.time_ps
    return {mark.number: int(np.searchsorted(times, mark.time_ps)) for mark in profile.marks}


def _follow_window(
    window: Window,
    events: AllocationRecord,
    marks: dict[int, int],
    start: list[RecordedChunk],
    made_by: Sequence[Owner | None],
) -> list[RecordedChunk]:
    live = {chunk.address: chunk for chunk in start if chunk.address is not None}
    chunks = list(start)
    # Two marks may have the same position.
    looked = ((marks[number], owners) for number, owners in sorted(window.owners.items()) if number in marks)
    lookups = sorted(looked, key=lambda lookup: lookup[0])
    waiting = 0
    is_allocation, address = events.is_allocation.tolist(), events.address.tolist()
    allocated, requested = events.allocated_bytes.tolist(), events.requested_bytes.tolist()
    for event in range(len(events)):
        while waiting < len(lookups) and lookups[waiting][0] <= event:
            _assign_owners(live, lookups[waiting][1])
            waiting += 1
        if is_allocation[event]:
            chunk = RecordedChunk(
                address[event], allocated[event], requested[event], events.operation[event],
                events.region_type[event], events.dtype[event], events.shape[event], born=event, made_by=made_by[event],
            )  # fmt: skip
            live[address[event]] = chunk
            chunks.append(chunk)
        else:
            freed = live.pop(address[event], None)
            if freed is not None:
                freed.died = event
    for _, owners in lookups[waiting:]:
        _assign_owners(live, owners)
    return chunks


def _bytes_before(events: AllocationRecord) -> int:
    if not len(events):
        return 0
    change = int(events.allocated_bytes[0]) * (1 if events.is_allocation[0] else -1)
    return int(events.bytes_in_use[0]) - change


def _assign_owners(live: dict[int, RecordedChunk], owners: Iterable[Owner]) -> None:
    """Set the variables and arguments that are in the chunks now."""
    for owner in owners:
        chunk = None if owner.address is None else live.get(owner.address)
        # An argument may be the value of a variable, and Python may hold either; then the variable is the owner.
        if chunk is None or owner.bytes > chunk.allocated or _is_view(owner, chunk):
            continue
        if _precedence(owner) >= _precedence(chunk.owner):
            chunk.owner = owner


def _is_view(owner: Owner, chunk: RecordedChunk) -> bool:
    """Whether an argument is a small part of a chunk, which holds the array that it was sliced from."""
    return owner.kind == "input" and 2 * owner.bytes < chunk.requested


def _precedence(owner: Owner | None) -> int:
    return 0 if owner is None else {OUTSIDE: 1, "input": 2}.get(owner.kind or "", 3)


def _alive_before(
    window: Window,
    events: AllocationRecord,
    marks: dict[int, int],
    left: list[RecordedChunk],
    before: int,
    outside: set[int | None],
) -> list[RecordedChunk]:
    """Return the chunks that exist when the window opens."""
    earlier = {chunk.address: chunk for chunk in left}
    first_event: dict[int, int] = {}
    for event, address in enumerate(events.address.tolist()):
        first_event.setdefault(address, event)
    found: dict[int | None, RecordedChunk] = {}
    for address, event in first_event.items():
        if not events.is_allocation[event]:
            size = int(events.allocated_bytes[event])
            found[address] = _as_before(earlier.get(address), address, size, int(events.requested_bytes[event]))
    opening = min((number for number in window.owners if number in marks), default=None)
    opened = window.owners.get(opening, ()) if opening is not None else ()
    known_owners = [(owner.address, owner) for owner in opened if owner.address is not None]
    unplaced = [owner for owner in opened if owner.address is None]
    seen = sorted({*first_event, *(address for address in found if address is not None)})
    rest = before - sum(chunk.allocated for chunk in found.values())
    # A NumPy array may serve as a tensor in place: it is not in the allocator, and far from the allocator's chunks.
    for address, owner in sorted(known_owners, key=lambda known: _distance(seen, known[0])):
        # Chunks made or freed inside the window are known from their events.
        if address in first_event or address in found:
            continue
        known = earlier.get(address)
        is_same = known is not None and known.requested == owner.bytes
        size = known.allocated if known is not None and is_same else round_up(owner.bytes)
        if size <= rest and (is_same or _may_be_inside(address, owner, seen, outside)):
            chunk = found[address] = _as_before(known, address, size, owner.bytes)
            chunk.owner = owner
            rest -= size
    return _add_remaining(found, left, unplaced, events, before)


def _distance(seen: Sequence[int], address: int) -> int:
    """Return the distance to the nearest of these addresses."""
    position = bisect_left(seen, address)
    return min((abs(address - each) for each in seen[max(position - 1, 0) : position + 1]), default=0)


def _may_be_inside(address: int, owner: Owner, seen: Sequence[int], outside: set[int | None]) -> bool:
    """Whether an address without events may belong to the allocator; an array only between the known chunks."""
    if address in outside:
        return False
    return owner.kind not in ("input", OUTSIDE) or (len(seen) > 0 and seen[0] <= address <= seen[-1])


def _as_before(earlier: RecordedChunk | None, address: int, allocated: int, requested: int) -> RecordedChunk:
    """Return the chunk of the window before at this address if it has the same size, else an unidentified chunk."""
    if earlier is None or (earlier.allocated, earlier.requested) != (allocated, requested):
        return RecordedChunk(address, allocated, requested, identified=False)
    return replace(earlier, address=address, born=None, died=None, identified=True)


def _add_remaining(
    found: dict[int | None, RecordedChunk],
    left: list[RecordedChunk],
    unplaced: list[Owner],
    events: AllocationRecord,
    before: int,
) -> list[RecordedChunk]:
    """Add chunks of the window before while the bytes in use allow it, and one unidentified chunk for the rest."""
    chunks = list(found.values())
    rest = before - sum(chunk.allocated for chunk in chunks)
    taken = _AddressRanges([(chunk.address or 0, chunk.allocated) for chunk in chunks])
    used = _AddressRanges(list(zip(events.address.tolist(), events.allocated_bytes.tolist(), strict=True)))
    for chunk in left:
        if chunk.address is None or chunk.address in found or chunk.allocated > rest:
            continue
        if not taken.overlaps(chunk.address, chunk.allocated) and not used.overlaps(chunk.address, chunk.allocated):
            chunks.append(_as_before(chunk, chunk.address, chunk.allocated, chunk.requested))
            rest -= chunk.allocated
    staying = {chunk.requested: chunk for chunk in chunks[len(found) :] if chunk.owner is None}
    for owner in unplaced:
        size = round_up(owner.bytes)
        alike = staying.pop(owner.bytes, None)
        if alike is not None:
            alike.owner = owner
        elif size <= rest:
            chunks.append(RecordedChunk(None, size, owner.bytes, owner=owner))
            rest -= size
    if rest > 0:
        chunks.append(RecordedChunk(None, rest, rest, identified=False))
    return chunks


class _AddressRanges:
    """Address ranges that may overlap each other."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        ranges = sorted(ranges)
        self.starts = [start for start, _ in ranges]
        self.ends: list[int] = []
        highest = 0
        for start, size in ranges:
            highest = max(highest, start + size)
            self.ends.append(highest)

    def overlaps(self, start: int, size: int) -> bool:
        """Whether a range overlaps one of these."""
        position = bisect_left(self.starts, start + size)
        return position > 0 and self.ends[position - 1] > start
