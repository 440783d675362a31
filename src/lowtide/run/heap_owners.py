"""Who held the blocks of an allocator that ran out: the heap it dumped, with the names that the record gives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.oom.heap import Heap
from lowtide.run.chunks import Chunk, Stretch
from lowtide.run.graph_names import NO_OP, Names, owners_of
from lowtide.run.record import Place
from lowtide.tide.owner import Owner


@dataclass(frozen=True)
class Constant:
    """An array that was written into a graph, large enough to matter."""

    name: str
    bytes: int
    source: str | None


@dataclass(frozen=True)
class Held:
    """What the script's own process knows of the moment in which memory ran out."""

    heap: str
    """The file that the allocator wrote."""
    step: int | None
    batch_size: int | None
    step_peak_bytes: int | None
    largest_batch_size: int | None
    planned_slowdown: float | None
    request_kind: str | None
    request_source: str | None
    holders: tuple[Owner, ...]
    constants: tuple[Constant, ...] = ()

    def constant_of(self, bytes_asked: int | None) -> Constant | None:
        """The constant that a request of so many bytes is for."""
        return next((each for each in self.constants if each.bytes == bytes_asked), None)


def save_held(held: Held, folder: Path) -> None:
    """Write it where the parent looks for it."""
    (folder / "held.json").write_text(json.dumps(asdict(held)), encoding="utf-8")


def load_held(folder: Path) -> Held | None:
    """Read it; None where the process died before it could say anything."""
    path = folder / "held.json"
    if not path.exists():
        return None
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    holders = tuple(Owner.from_dict(each) for each in stored.pop("holders"))
    constants = tuple(Constant(**each) for each in stored.pop("constants"))
    return Held(**stored, holders=holders, constants=constants)


def moment_of(heap: Heap, stretch: Stretch) -> int | None:
    """After how many events of a window the allocator was as its dump says; None if it never was."""
    if heap.bytes_in_use is None:
        return None
    same = np.flatnonzero(stretch.events.bytes_in_use == heap.bytes_in_use)
    return int(same[-1]) + 1 if len(same) else None


def holders_of(
    heap: Heap, alive: Iterable[Chunk], places: Iterable[Place], alike: Mapping[int, Chunk], names: Names
) -> tuple[Owner, ...]:
    """A holder for each block in use, largest first.

    A block is known by the record of its own allocation, by a variable or tensor that lies in it, or else by another
    of the same size in a step that was recorded.
    """
    recorded = {chunk.address: chunk for chunk in alive}
    placed = {place.address: place for place in places}
    holders: list[Owner] = []
    rows = zip(heap.address.tolist(), heap.size.tolist(), heap.requested.tolist(), heap.in_use.tolist(), strict=True)
    for address, size, requested, in_use in rows:
        if not in_use:
            continue
        known = recorded.get(address)
        if known is None or known.allocated != size:
            known = None
        if address in placed:
            known = Chunk(address, size, requested, place=placed[address])
        known = known or alike.get(requested)
        if known is None or not known.identified:
            holders.append(Owner(bytes=size, requested_bytes=requested))
        else:
            found = Chunk(**{**vars(known), "address": address, "allocated": size, "requested": requested})
            holders += [_without_placeholder(owner) for owner in owners_of(found, names)]
    return _together(holders)


def _together(holders: Iterable[Owner]) -> tuple[Owner, ...]:
    """What has one name and is alike is told once, with its number; largest first."""
    groups: dict[Owner, list[Owner]] = {}
    for holder in holders:
        groups.setdefault(replace(holder, bytes=0, requested_bytes=None, address=None), []).append(holder)
    joined = (
        replace(
            alike,
            bytes=sum(holder.bytes for holder in members),
            count=len(members),
            requested_bytes=sum(holder.requested_bytes or 0 for holder in members),
        )
        for alike, members in groups.items()
    )
    return tuple(sorted(joined, key=lambda holder: -holder.bytes))


def _without_placeholder(owner: Owner) -> Owner:
    """Return an owner with None in place of the words that tides show for unknown ops."""
    return replace(owner, name=None, op=None) if owner.op == NO_OP else owner


def alike_by_size(stretches: Sequence[Stretch]) -> dict[int, Chunk]:
    """For each size that some step asked for, the last chunk of that size; small ones are anybody's."""
    found: dict[int, Chunk] = {}
    for stretch in stretches:
        for chunk in stretch.chunks:
            if chunk.requested >= SMALLEST_TELLING and chunk.identified and chunk.place is None:
                found[chunk.requested] = chunk
    return found


# Below this, sizes coincide by chance.
SMALLEST_TELLING = 4096
