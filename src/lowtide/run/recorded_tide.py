"""The tide of a recorded step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lowtide.run.chunks import Chunk, Stretch
from lowtide.run.graph_names import Names, owners_of
from lowtide.run.op_times import op_times
from lowtide.simulator.bfc import BfcAllocator, OutOfMemory
from lowtide.tide.columns import Buffers, Building, Curve, Recording, StepPeak
from lowtide.tide.rows import BufferRow, buffers_of
from lowtide.tide.tide import Tide

# How often a step is repeated until it finds the regions that it needs.
_RUNS_UNTIL_STEADY = 3
# The lines of the tensors that hold most are looked up: finding one means walking a Python traceback.
_LARGEST_SOURCED = 24


@dataclass(frozen=True)
class RecordedStep:
    """One step of a stretch: the events from its first call to the first call of the next step."""

    step: int
    first: int
    end: int
    peak_bytes: int
    functions: tuple[str, ...]


def steps_of(stretch: Stretch) -> list[RecordedStep]:
    """The steps that a stretch recorded from their beginning to their end, in order."""
    calls = [call for call in stretch.window.calls if call.begin_mark in stretch.marks]
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    functions: dict[int, list[str]] = {}
    failed: set[int] = set()
    for call in calls:
        begins.setdefault(call.step, stretch.marks[call.begin_mark])
        functions.setdefault(call.step, []).append(call.function)
        if call.end_mark in stretch.marks:
            ends[call.step] = stretch.marks[call.end_mark]
        else:
            # It raised, or the process died in it.
            failed.add(call.step)
    order = sorted(begins)
    steps = []
    for position, step in enumerate(order):
        following = order[position + 1] if position + 1 < len(order) else None
        if step in ends and step not in failed:
            # Another thread may begin the next step before this one has ended.
            end = max(begins[following], ends[step]) if following is not None else len(stretch.events)
            peak = _peak(stretch, begins[step], end)
            steps.append(RecordedStep(step, begins[step], end, peak, tuple(dict.fromkeys(functions[step]))))
    return steps


def step_until(stretch: Stretch, moment: int) -> RecordedStep | None:
    """The step that was running after so many events, as if it had ended there."""
    begun = [call for call in stretch.window.calls if stretch.marks.get(call.begin_mark, moment + 1) <= moment]
    if not begun:
        return None
    step = begun[-1].step
    first = min(stretch.marks[call.begin_mark] for call in begun if call.step == step)
    functions = tuple(dict.fromkeys(call.function for call in begun if call.step == step))
    return RecordedStep(step, first, moment, _peak(stretch, first, moment), functions)


def choose_step(stretches: Sequence[Stretch]) -> tuple[Stretch, RecordedStep, list[RecordedStep]] | None:
    """A steady step, the one whose peak is the middle one; and all that were recorded beside it.

    The first step of a window is passed over where there are others: what it finds in the allocator was not seen
    being made, and the very first traces the program.
    """
    for stretch in reversed(stretches):
        steps = steps_of(stretch)
        if steps and len(stretch.events):
            candidates = sorted(steps[1:] or steps, key=lambda step: step.peak_bytes)
            return stretch, candidates[(len(candidates) - 1) // 2], steps
    return None


def recorded_tide(
    stretch: Stretch,
    step: RecordedStep,
    steps: Sequence[RecordedStep],
    names: Names,
    *,
    target: str,
    batch_size: int | None,
    limit_bytes: int | None,
    building: Building,
    notes: tuple[str, ...] = (),
) -> Tide:
    """What the allocator did from the beginning of a step to its end, with names."""
    chunks = [chunk for chunk in stretch.chunks if _overlaps(chunk, step.first, step.end)]
    rows = [BufferRow(owner, *_lifetime(chunk, step)) for chunk in chunks for owner in owners_of(chunk, names)]
    curve = _curve(stretch, step)
    peak_event = int(np.argmax(curve.bytes_in_use))
    rows = _with_sources(rows, peak_event, names)
    peaks = tuple(StepPeak(each.step, each.peak_bytes) for each in steps)
    return Tide(
        target=target,
        method="recorded",
        batch_size=batch_size,
        peak_bytes=step.peak_bytes,
        safe_bytes=max(*(each.peak_bytes for each in steps), smallest_limit(chunks, step)),
        buffers=_placed(rows),
        curve=curve,
        building=building,
        notes=notes,
        recording=Recording(
            allocator=stretch.events.allocator[0],
            limit_bytes=limit_bytes,
            step=step.step,
            steps=peaks,
            fragmentation=_fragmentation(stretch, step, peak_event),
        ),
        times=op_times(stretch, {each.step for each in steps}),
    )


def _peak(stretch: Stretch, first: int, end: int) -> int:
    before = int(stretch.events.bytes_in_use[first - 1]) if first else stretch.bytes_before
    inside = stretch.events.bytes_in_use[first:end]
    return max(before, int(inside.max()) if len(inside) else 0)


def _overlaps(chunk: Chunk, first: int, end: int) -> bool:
    return (chunk.born is None or chunk.born < end) and (chunk.died is None or chunk.died >= first)


def _lifetime(chunk: Chunk, step: RecordedStep) -> tuple[int, int]:
    """Event 0 of a tide is the moment before the step."""
    born = 0 if chunk.born is None or chunk.born < step.first else chunk.born - step.first + 1
    events = step.end - step.first + 1
    died = events if chunk.died is None or chunk.died >= step.end else chunk.died - step.first + 1
    return born, died


def _curve(stretch: Stretch, step: RecordedStep) -> Curve:
    before = int(stretch.events.bytes_in_use[step.first - 1]) if step.first else stretch.bytes_before
    inside = stretch.events.bytes_in_use[step.first : step.end]
    places: dict[str, int] = {}
    node = [0]
    for event in range(step.first, step.end):
        node.append(places.setdefault(stretch.events.operation[event] or "unnamed", len(places)))
    nodes = list(places) or ["unnamed"]
    return Curve(np.concatenate([[before], inside]).astype(np.int64), np.array(node, np.int32), nodes)


def _fragmentation(stretch: Stretch, step: RecordedStep, peak_event: int) -> float:
    event = max(step.first + peak_event - 1, 0)
    value = float(stretch.events.fragmentation[event]) if len(stretch.events) else 0.0
    # Where nothing is free there is nothing in pieces.
    return value if np.isfinite(value) else 0.0


def _with_sources(rows: list[BufferRow], peak_event: int, names: Names) -> list[BufferRow]:
    if names.source_of is None:
        return rows
    alive = [row for row in range(len(rows)) if rows[row].born <= peak_event < rows[row].died]
    largest = sorted(alive, key=lambda row: -rows[row].owner.bytes)[:_LARGEST_SOURCED]
    for row in largest:
        owner = rows[row].owner
        if owner.source is None:
            source = names.source_of((owner.name or "").removesuffix(":0"))
            rows[row] = replace(rows[row], owner=replace(owner, source=source))
    return rows


def _placed(rows: list[BufferRow]) -> Buffers:
    """Columns with addresses: what lies nobody knows where takes the place above all that is known."""
    owners = [row.owner for row in rows]
    above = max((owner.address + owner.bytes for owner in owners if owner.address is not None), default=0)
    placed = []
    for row in rows:
        if row.owner.address is None:
            row = replace(row, owner=replace(row.owner, address=above))
            above += row.owner.bytes
        placed.append(row)
    return buffers_of(placed)


def smallest_limit(chunks: Sequence[Chunk], step: RecordedStep) -> int:
    """The smallest hard limit under which this very sequence of requests does not run out.

    Found by trying in a model of the allocator: limits count whole regions, and regions grow by doubling.
    """
    residents = [chunk.requested for chunk in chunks if chunk.born is None or chunk.born < step.first]
    moments = []
    sizes = [chunk.requested for chunk in chunks]
    for number, chunk in enumerate(chunks):
        is_new = chunk.born is not None and chunk.born >= step.first
        if is_new:
            moments.append((chunk.born or 0, number))
            # What outlives the step goes when the next one has replaced it.
            moments.append((chunk.died if chunk.died is not None and chunk.died < step.end else step.end, ~number))
    events = [event for _, event in sorted(moments)]

    def fits(limit: int) -> bool:
        allocator = BfcAllocator(limit)
        try:
            for size in residents:
                allocator.allocate(size)
            for _ in range(_RUNS_UNTIL_STEADY):
                allocator.replay(sizes, events)
        except OutOfMemory:
            return False
        return True

    low, high = max(step.peak_bytes, 1), max(step.peak_bytes, 1 << 20)
    while not fits(high):
        low, high = high, 2 * high
    while high - low > max(high >> 7, 1 << 16):
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high
