"""The tide of a recorded step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lowtide.run.chunks import RecordedChunk, Stretch
from lowtide.run.graph_names import GraphNames
from lowtide.run.op_times import op_times
from lowtide.run.outside import find_owners
from lowtide.run.record import TAPE
from lowtide.simulator.bfc import BfcAllocator, OutOfMemory
from lowtide.tide.columns import Buffers, Building, Curve, ProcessMemory, Recording, StepPeak
from lowtide.tide.rows import BufferRow, buffers_of
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes

# The number of repetitions after which the allocator has all the regions that a step needs.
_RUNS_UNTIL_STEADY = 3
# Source lines are looked up for the largest tensors only, because finding one walks a Python traceback.
_LARGEST_SOURCED = 24
# A script without steps may run for hours; this many events before its peak, and as many after it, are kept.
_EVENTS_AROUND_PEAK = 10_000
# Of the ops of two steps with equal inputs, the share whose shapes may differ because they depend on the data.
_DATA_DEPENDENT_SHARE = 0.05


@dataclass(frozen=True)
class RecordedStep:
    """One step of a window: the events from its first call to the first call of the next step."""

    step: int
    """Counted from 1; 0 for all of a script that ran no step."""
    first: int
    end: int
    peak_bytes: int
    functions: tuple[str, ...]

    @property
    def is_eager(self) -> bool:
        """Whether the step runs under a gradient tape of the program, not inside a function."""
        return any(function.startswith(TAPE) for function in self.functions)


def steps_of(stretch: Stretch) -> list[RecordedStep]:
    """Return the steps that were recorded from begin to end, in order."""
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
            # The call raised, or the process died in it.
            failed.add(call.step)
    order = sorted(begins)
    steps = []
    for position, step in enumerate(order):
        following = order[position + 1] if position + 1 < len(order) else None
        if step in ends and step not in failed:
            # Another thread may begin the next step before this one ends.
            end = max(begins[following], ends[step]) if following is not None else len(stretch.events)
            peak = _peak(stretch, begins[step], end)
            steps.append(RecordedStep(step, begins[step], end, peak, tuple(dict.fromkeys(functions[step]))))
    return steps


def step_until(stretch: Stretch, moment: int) -> RecordedStep | None:
    """Return the step that was running after `moment` events, ending there."""
    begun = [call for call in stretch.window.calls if stretch.marks.get(call.begin_mark, moment + 1) <= moment]
    if not begun:
        return None
    step = begun[-1].step
    first = min(stretch.marks[call.begin_mark] for call in begun if call.step == step)
    functions = tuple(dict.fromkeys(call.function for call in begun if call.step == step))
    return RecordedStep(step, first, moment, _peak(stretch, first, moment), functions)


def choose_step(stretches: Sequence[Stretch]) -> tuple[Stretch, RecordedStep, list[RecordedStep]] | None:
    """Return the last window with steps, a typical one of its largest steps, and all its steps.

    Steps of equal shapes form a group: the last batch of an epoch is often smaller. The step is the one with the median
    peak of the group with the highest peak. The first step of a window is skipped if its group has others: the chunks
    that exist before it were allocated outside the window, and the very first step traces the program.
    """
    for stretch in reversed(stretches):
        steps = steps_of(stretch)
        if steps and len(stretch.events):
            largest = max(_groups_of(stretch, steps), key=lambda group: max(step.peak_bytes for step in group))
            others = [step for step in largest if step is not steps[0]]
            candidates = sorted(others or largest, key=lambda step: step.peak_bytes)
            return stretch, candidates[(len(candidates) - 1) // 2], steps
    return None


def whole_script(stretches: Sequence[Stretch]) -> tuple[Stretch, RecordedStep, list[RecordedStep]] | None:
    """Return the window with the highest peak and, as one step without a number, its events around the peak.

    For a script that ran no training step.
    """
    if not stretches:
        return None
    stretch = max(stretches, key=lambda each: int(each.events.bytes_in_use.max(initial=0)))
    if not len(stretch.events):
        return None
    peak = int(np.argmax(stretch.events.bytes_in_use))
    first, end = max(peak - _EVENTS_AROUND_PEAK, 0), min(peak + _EVENTS_AROUND_PEAK, len(stretch.events))
    return stretch, RecordedStep(0, first, end, _peak(stretch, first, end), ()), []


def _groups_of(stretch: Stretch, steps: Sequence[RecordedStep]) -> list[list[RecordedStep]]:
    """Return the steps in groups of equal shapes, in the order of their first steps."""
    groups: list[tuple[dict[str, tuple[int, ...]], list[RecordedStep]]] = []
    for step in steps:
        shapes = _shapes_in(stretch, step)
        for known, members in groups:
            common = known.keys() & shapes.keys()
            if sum(known[name] != shapes[name] for name in common) <= _DATA_DEPENDENT_SHARE * len(common):
                members.append(step)
                break
        else:
            groups.append((shapes, [step]))
    return [members for _, members in groups]


def _shapes_in(stretch: Stretch, step: RecordedStep) -> dict[str, tuple[int, ...]]:
    """Return the shape that each op of a step allocated first."""
    inside = slice(step.first, step.end)
    shapes: dict[str, tuple[int, ...]] = {}
    for operation, shape in zip(stretch.events.operation[inside], stretch.events.shape[inside], strict=True):
        if operation and shape:
            shapes.setdefault(operation, tuple(shape))
    return shapes


def _shape_note(stretch: Stretch, chosen: RecordedStep, steps: Sequence[RecordedStep]) -> tuple[str, ...]:
    """Return how many steps had the shapes of the chosen one, if others were recorded too."""
    groups = _groups_of(stretch, steps)
    if len(groups) < 2:
        return ()
    counts = {chosen in group: 0 for group in groups}
    for group in groups:
        counts[chosen in group] += len(group)
    peaks = [format_bytes(max(step.peak_bytes for step in group)) for group in groups if chosen not in group]
    others = f"{counts[False]} with other shapes, such as the last batch of an epoch, with peaks of {', '.join(peaks)}"
    return (f"{len(steps)} steps were recorded: {counts[True]} with the shapes of this one, {others}",)


def recorded_tide(
    stretch: Stretch,
    step: RecordedStep,
    steps: Sequence[RecordedStep],
    names: GraphNames,
    *,
    target: str,
    batch_size: int | None,
    limit_bytes: int | None,
    building: Building,
    notes: tuple[str, ...] = (),
    process: ProcessMemory | None = None,
) -> Tide:
    """Return the tide of a recorded step, with names."""
    chunks = [chunk for chunk in stretch.chunks if _overlaps(chunk, step.first, step.end)]
    owners = [find_owners(chunk, step.first, step.end, names, is_step=step.step > 0) for chunk in chunks]
    rows = [
        BufferRow(owner, *_lifetime(chunk, step))
        for chunk, of_chunk in zip(chunks, owners, strict=True)
        for owner in of_chunk
    ]
    curve = _curve(stretch, step)
    peak_event = int(np.argmax(curve.bytes_in_use))
    rows = _with_sources(rows, peak_event, names)
    peaks = tuple(StepPeak(each.step, each.peak_bytes) for each in steps)
    return Tide(
        target=target,
        method="recorded",
        batch_size=batch_size,
        peak_bytes=step.peak_bytes,
        safe_bytes=max(step.peak_bytes, *(each.peak_bytes for each in steps), smallest_limit(chunks, step)),
        buffers=_place_buffers(rows),
        curve=curve,
        building=building,
        notes=(*notes, *_shape_note(stretch, step, steps)),
        recording=Recording(
            allocator=stretch.events.allocator[0],
            limit_bytes=limit_bytes,
            step=step.step or None,
            steps=peaks,
            fragmentation=_fragmentation(stretch, step, peak_event),
            process=process,
        ),
        times=op_times(stretch, {each.step for each in steps}),
    )


def _peak(stretch: Stretch, first: int, end: int) -> int:
    before = int(stretch.events.bytes_in_use[first - 1]) if first else stretch.bytes_before
    inside = stretch.events.bytes_in_use[first:end]
    return max(before, int(inside.max()) if len(inside) else 0)


def _overlaps(chunk: RecordedChunk, first: int, end: int) -> bool:
    return (chunk.born is None or chunk.born < end) and (chunk.died is None or chunk.died >= first)


def _lifetime(chunk: RecordedChunk, step: RecordedStep) -> tuple[int, int]:
    """Return the events of a tide at which a chunk is born and dies; event 0 is the moment before the step."""
    born = 0 if chunk.born is None or chunk.born < step.first else chunk.born - step.first + 1
    events = step.end - step.first + 1
    died = events if chunk.died is None or chunk.died >= step.end else chunk.died - step.first + 1
    return born, died


def _curve(stretch: Stretch, step: RecordedStep) -> Curve:
    before = int(stretch.events.bytes_in_use[step.first - 1]) if step.first else stretch.bytes_before
    inside = stretch.events.bytes_in_use[step.first : step.end]
    indices: dict[str, int] = {}
    node = [0]
    for event in range(step.first, step.end):
        node.append(indices.setdefault(stretch.events.operation[event] or "unnamed", len(indices)))
    nodes = list(indices) or ["unnamed"]
    return Curve(np.concatenate([[before], inside]).astype(np.int64), np.array(node, np.int32), nodes)


def _fragmentation(stretch: Stretch, step: RecordedStep, peak_event: int) -> float:
    event = max(step.first + peak_event - 1, 0)
    value = float(stretch.events.fragmentation[event]) if len(stretch.events) else 0.0
    # Fragmentation is not defined when nothing is free.
    return value if np.isfinite(value) else 0.0


def _with_sources(rows: list[BufferRow], peak_event: int, names: GraphNames) -> list[BufferRow]:
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


def _place_buffers(rows: list[BufferRow]) -> Buffers:
    """Return the columns; buffers without an address are placed above the highest known one."""
    owners = [row.owner for row in rows]
    above = max((owner.address + owner.bytes for owner in owners if owner.address is not None), default=0)
    placed = []
    for row in rows:
        if row.owner.address is None:
            row = replace(row, owner=replace(row.owner, address=above))
            above += row.owner.bytes
        placed.append(row)
    return buffers_of(placed)


def is_of_eager_step(chunk: RecordedChunk, step: RecordedStep) -> bool:
    """Whether an eager op of this step made the chunk, or the step reads it as an input."""
    is_input = chunk.owner is not None and chunk.owner.kind == "input"
    is_new = chunk.born is not None and chunk.born >= step.first
    return step.is_eager and (is_input or (is_new and chunk.made_by is not None))


def find_eager_batch(stretch: Stretch, step: RecordedStep) -> int | None:
    """Return the first dimension of the tensors with most of the bytes of an eager forward pass; None if none has."""
    held: dict[int, int] = {}
    for chunk in stretch.chunks:
        is_forward = chunk.made_by is not None and chunk.made_by.kind == "activations"
        if is_forward and _overlaps(chunk, step.first, step.end) and len(chunk.shape or ()) > 1:
            rows = (chunk.shape or ())[0]
            held[rows] = held.get(rows, 0) + chunk.requested
    rows = max(held, key=lambda each: held[each], default=0)
    return rows if rows > 1 and 2 * held[rows] > sum(held.values()) else None


def smallest_limit(chunks: Sequence[RecordedChunk], step: RecordedStep) -> int:
    """Return the smallest limit under which this sequence of requests does not run out of memory.

    A binary search with the model of the allocator: a limit applies to whole regions, which grow by doubling.
    """
    runs = _RUNS_UNTIL_STEADY if step.step else 1
    residents = [chunk.requested for chunk in chunks if chunk.born is None or chunk.born < step.first]
    moments = []
    sizes = [chunk.requested for chunk in chunks]
    for number, chunk in enumerate(chunks):
        is_new = chunk.born is not None and chunk.born >= step.first
        if is_new:
            moments.append((chunk.born or 0, number))
            # A chunk that outlives the step is freed when the next step has replaced it.
            moments.append((chunk.died if chunk.died is not None and chunk.died < step.end else step.end, ~number))
    events = [event for _, event in sorted(moments)]

    def fits(limit: int) -> bool:
        allocator = BfcAllocator(limit)
        try:
            for size in residents:
                allocator.allocate(size)
            for _ in range(runs):
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
