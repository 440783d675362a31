"""The owners of the blocks in an allocator's dump, and the file in which the script's process saves them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.oom.evidence import Request
from lowtide.oom.heap import Heap
from lowtide.run.chunks import RecordedChunk, Stretch
from lowtide.run.graph_names import NO_OP, UNNAMED, GraphNames, owners_of
from lowtide.tide.owner import Owner

# Smaller sizes coincide by chance.
_SMALLEST_DISTINCT = 4096


@dataclass(frozen=True)
class ProcessEvidence:
    """What the script's process knows about the allocation failure; the log is read later, by the parent."""

    heap: str
    """The name of the file that the allocator wrote."""
    step: int | None
    batch_size: int | None
    step_peak_bytes: int | None
    request_kind: str | None
    request: Request
    """The failed request, as far as the process knows it; the log may say more."""
    holders: tuple[Owner, ...]
    constants: tuple[Owner, ...] = ()
    """Large arrays in the program's graphs."""
    largest_batch_size: int | None = None
    planned_slowdown: float | None = None
    is_eager: bool = False
    """Whether an op of a step that runs eagerly made the request."""

    def find_constant(self, requested_bytes: int | None) -> Owner | None:
        """Return the constant that has the size of a request."""
        return next((each for each in self.constants if each.bytes == requested_bytes), None)


def save_process_evidence(evidence: ProcessEvidence, folder: Path) -> None:
    """Write the evidence into the folder of the run."""
    (folder / "held.json").write_text(json.dumps(asdict(evidence)), encoding="utf-8")


def load_process_evidence(folder: Path) -> ProcessEvidence | None:
    """Read the evidence; None if the process died before it was saved."""
    path = folder / "held.json"
    if not path.exists():
        return None
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    holders = tuple(Owner.from_dict(each) for each in stored.pop("holders"))
    constants = tuple(Owner.from_dict(each) for each in stored.pop("constants"))
    request = stored.pop("request")
    shape = request.pop("shape")
    return ProcessEvidence(
        **stored,
        request=Request(**request, shape=None if shape is None else tuple(shape)),
        holders=holders,
        constants=constants,
    )


def find_dump_event(heap: Heap, stretch: Stretch) -> int | None:
    """Return the number of events after which the bytes in use match the dump; None if they never do."""
    if heap.bytes_in_use is None:
        return None
    same = np.flatnonzero(stretch.events.bytes_in_use == heap.bytes_in_use)
    return int(same[-1]) + 1 if len(same) else None


def find_heap_owners(
    heap: Heap,
    alive: Iterable[RecordedChunk],
    owners: Iterable[Owner],
    alike: Mapping[int, RecordedChunk],
    names: GraphNames,
) -> tuple[Owner, ...]:
    """Return the owners of the blocks in use, largest first.

    A block is identified by its recorded allocation, by the variable or tensor at its address (`owners`), or else by a
    chunk of the same size in a recorded step (`alike`).
    """
    recorded = {chunk.address: chunk for chunk in alive}
    placed = {owner.address: owner for owner in owners}
    holders: list[Owner] = []
    rows = zip(heap.address.tolist(), heap.size.tolist(), heap.requested.tolist(), heap.in_use.tolist(), strict=True)
    for address, size, requested, in_use in rows:
        if not in_use:
            continue
        known = recorded.get(address)
        if known is not None and known.allocated != size:
            known = None
        if address in placed:
            known = RecordedChunk(address, size, requested, owner=placed[address])
        known = known or alike.get(requested)
        if known is None or not known.identified:
            holders.append(Owner(bytes=size, requested_bytes=requested))
        else:
            found = replace(known, address=address, allocated=size, requested=requested)
            holders += [_without_placeholder(owner) for owner in owners_of(found, names)]
    return _group(holders)


def _group(holders: Iterable[Owner]) -> tuple[Owner, ...]:
    """Merge equal owners, with their count; largest first."""
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
    if owner.op != NO_OP:
        return owner
    return replace(owner, name=None if owner.name in UNNAMED else owner.name, op=None)


def chunks_by_size(stretches: Sequence[Stretch]) -> dict[int, RecordedChunk]:
    """Return the last identified chunk of each requested size; small sizes are left out."""
    found: dict[int, RecordedChunk] = {}
    for stretch in stretches:
        for chunk in stretch.chunks:
            if chunk.requested >= _SMALLEST_DISTINCT and chunk.identified and chunk.owner is None:
                found[chunk.requested] = chunk
    return found
