"""Changes to a pipeline that reduce its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowtide.feed.forecast.stage import Stage
from lowtide.feed.forecast.stage_memory import BAKED_TIMES_AT_START, CONSTANT_TIMES, Holding
from lowtide.units import format_bytes

# Changes that save less than this share of the total are not listed.
_LEAST_SHARE = 0.05
# Prefetching more batches than this does not shorten the wait of a step.
_ENOUGH_AHEAD = 2


@dataclass(frozen=True)
class Advice:
    """One change, and the bytes that it saves at the peak."""

    what: str
    saves_bytes: int
    changes: str | None = None
    """What changes in the batches; None if they stay the same."""


def advise(holdings: Sequence[Holding]) -> list[Advice]:
    """List the changes that save memory, largest saving first."""
    all_bytes = sum(each.bytes for each in holdings)
    found = [advice for each in holdings for advice in _advise(each) if advice.saves_bytes > _LEAST_SHARE * all_bytes]
    return sorted(found, key=lambda each: -each.saves_bytes)


def _advise(holding: Holding) -> Iterator[Advice]:
    stage = holding.stage
    if stage.kind in ("Shuffle", "ShuffleAndRepeat", "Cache") and holding.held_elements:
        yield from _move_earlier(holding)
    if stage.kind == "Cache" and holding.held_bytes:
        yield Advice("cache to a file, cache(path), which the system reads from its page cache", holding.held_bytes)
    if stage.kind == "Shuffle":
        kept = -(-holding.held_elements // 4)
        what = f"shuffle among {kept:,} instead of {holding.held_elements:,}"
        yield Advice(what, holding.held_bytes * 3 // 4, "examples are mixed less")
    if stage.kind == "Prefetch" and stage.numbers.get("buffer_size", 1) > _ENOUGH_AHEAD:
        per = stage.element.held_bytes
        yield Advice(f"prefetch({_ENOUGH_AHEAD})", holding.held_bytes - min(_ENOUGH_AHEAD, holding.held_elements) * per)
    if stage.kind == "ParallelInterleave" and stage.numbers.get("block_length", 1) > 1:
        block = stage.numbers["block_length"]
        saved = holding.held_bytes * (2 * block - 2) // (2 * block + 1)
        yield Advice("interleave with block_length=1", saved, "examples come in another order")
    if stage.baked_bytes:
        yield Advice(
            f"make the {format_bytes(stage.baked_bytes)} of constants within the function a tensor outside of it",
            (BAKED_TIMES_AT_START - CONSTANT_TIMES) * stage.baked_bytes,
        )
    if stage.constant_bytes:
        yield Advice(
            "read the arrays from files with lt.feed.arrays instead of making a dataset from them",
            CONSTANT_TIMES * stage.constant_bytes,
        )
    if stage.captured_bytes:
        yield Advice(
            f"look things up in the {format_bytes(stage.captured_bytes)} of tensors within the model instead",
            CONSTANT_TIMES * stage.captured_bytes,
        )


def _move_earlier(holding: Holding) -> Iterator[Advice]:
    """Suggest to shuffle or cache before a map makes the elements larger."""
    smallest = holding.stage.source
    for each in _list_one_to_one(smallest):
        if each.element.held_bytes < smallest.element.held_bytes:
            smallest = each
    saved = holding.held_elements * (holding.stage.source.element.held_bytes - smallest.element.held_bytes)
    if saved > 0:
        verb = "cache" if holding.stage.kind == "Cache" else "shuffle"
        size = format_bytes(smallest.element.content_bytes)
        yield Advice(f"{verb} before the map, where an element takes {size}", saved)


def _list_one_to_one(stage: Stage) -> Iterator[Stage]:
    """Yield the stages before `stage` that have one element for each of its elements."""
    while stage.kind in ("Map", "ParallelMap", "Prefetch", "Filter", "Options") and stage.inputs:
        stage = stage.source
        yield stage
