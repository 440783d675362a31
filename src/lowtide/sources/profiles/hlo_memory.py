"""The contents of the temporary block of a compiled module.

XLA requests its temporary memory in one piece and places all intermediate values in it. The trace of XLA's heap
simulation says which value is where, and when.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.sources.profiles.hlo import Allocation, CompiledModule, HeapEvent, Slice
from lowtide.sources.profiles.hlo_module import Instruction


@dataclass(frozen=True, slots=True)
class HeldValue:
    """A value in the temporary block at its peak."""

    name: str
    instruction: Instruction | None
    shape_index: tuple[int, ...]
    offset: int
    size: int


@dataclass(frozen=True)
class TemporaryBlock:
    """One block of temporary memory and its contents."""

    size: int
    instructions: list[str]
    """The instruction of each event of the heap simulation."""
    peak_event: int | None
    held: tuple[HeldValue, ...]


def open_block(module: CompiledModule, allocation: Allocation) -> TemporaryBlock:
    """Return the contents of an allocation at its peak."""
    slices = {piece.buffer: piece for piece in allocation.assigned}
    events = _events_of(module, slices)
    canonical = _canonical_buffers(events)
    # Values that the heap simulation does not mention may be alive all the time.
    always = [piece for buffer, piece in slices.items() if buffer not in canonical]
    base = sum(piece.size for piece in always)
    users: dict[int, list[int]] = {}
    current, peak, peak_event = base, -1, None
    at_peak: list[int] = []
    for position, event in enumerate(events):
        root = canonical[event.buffer]
        sharers = users.setdefault(root, [])
        if event.kind == "free":
            sharers.remove(event.buffer)
            current -= 0 if sharers else slices[root].size
        else:
            current += 0 if sharers else slices[root].size
            sharers.append(event.buffer)
        if current > peak:
            peak, peak_event = current, position
            at_peak = []
        if current == peak and not at_peak:
            at_peak = [sharers[-1] for sharers in users.values() if sharers]
    held = _without_overlap([slices[buffer] for buffer in at_peak] + always)
    values = tuple(_describe(module, piece) for piece in held)
    return TemporaryBlock(allocation.size, [event.instruction for event in events], peak_event, values)


def _events_of(module: CompiledModule, slices: dict[int, Slice]) -> list[HeapEvent]:
    """Return the events of the heaps in this allocation.

    A trace refers to its allocation by a number from before the temporary blocks were merged, so traces are matched by
    the values in them.
    """
    known: set[int] = set()
    events = []
    for heap in module.heaps:
        for event in heap:
            if event.buffer not in slices:
                continue
            if event.kind == "share" and event.shared_with not in known:
                event = HeapEvent("allocate", event.buffer, event.instruction, None)
            if event.kind == "free" and event.buffer not in known:
                continue
            known.add(event.buffer)
            events.append(event)
    return events


def _canonical_buffers(events: list[HeapEvent]) -> dict[int, int]:
    canonical: dict[int, int] = {}
    for event in events:
        if event.kind == "share" and event.shared_with is not None:
            canonical[event.buffer] = canonical[event.shared_with]
        elif event.kind == "allocate":
            canonical[event.buffer] = event.buffer
    return canonical


def _without_overlap(pieces: list[Slice]) -> list[Slice]:
    """Drop pieces that overlap another one, so that the sizes add up to bytes of the block."""
    kept: list[Slice] = []
    end = 0
    for piece in sorted(pieces, key=lambda piece: (piece.offset, -piece.size)):
        if piece.offset >= end and piece.size:
            kept.append(piece)
            end = piece.offset + piece.size
    return kept


def _describe(module: CompiledModule, piece: Slice) -> HeldValue:
    logical = module.buffers.get(piece.buffer)
    name = f"buffer {piece.buffer}" if logical is None else logical.instruction
    shape_index = () if logical is None else logical.shape_index
    return HeldValue(name, module.instruction_of(piece.buffer), shape_index, piece.offset, piece.size)
