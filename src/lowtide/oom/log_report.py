"""What a log says about one time that memory ran out, and its explanation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lowtide.oom.cause import Evidence, explain_evidence
from lowtide.oom.heap import Heap
from lowtide.oom.shortage import Holder, Request, Shortage


@dataclass(frozen=True)
class Shortfall:
    """One request that a log says could not be served, with what the log says about the memory at that moment."""

    request: Request
    heap: Heap | None
    line: int
    """Where the log begins to speak of it, counted from 1."""
    holders: tuple[Holder, ...] = ()
    """Who held memory, where the log has more than the blocks of the heap; largest first."""
    notes: tuple[str, ...] = ()
    outside: bool = False
    """Whether the allocator says that no op was asking."""
    compiled: bool = False
    """Whether it was a compiled program that asked."""


def explain_shortfall(shortfall: Shortfall, target: str, *, batch_size: int | None = None) -> Shortage:
    """Return why memory ran out, from what the log says alone."""
    heap, request = shortfall.heap, shortfall.request
    holders = shortfall.holders
    if not holders and heap is not None:
        holders = tuple(Holder(size * count, count) for size, count in heap.held_by_size())
    limit = None if heap is None else heap.limit_bytes
    in_use = None if heap is None else heap.bytes_in_use
    free = None if heap is None else heap.free_bytes
    largest = None if heap is None else heap.largest_free_bytes
    evidence = Evidence(
        request,
        limit_bytes=limit,
        in_use_bytes=in_use,
        free_bytes=free,
        largest_free_bytes=largest,
        extension_bytes=None if heap is None else heap.extension_bytes,
        holders=holders,
        request_kind="input" if request.allocator == "numpy" else None,
        outside_ops=shortfall.outside,
        compiled=shortfall.compiled,
        batch_size=batch_size,
    )
    return explain_evidence(
        evidence,
        target,
        peak_bytes=None if heap is None else heap.peak_bytes,
        notes=(f"from line {shortfall.line:,} of the log on", *shortfall.notes),
    )


def guess_batch_size(requests: Iterable[Request]) -> int | None:
    """Return the first dimension that different shapes share: most likely the batch. One shape alone tells nothing."""
    shapes = {request.shape for request in requests if request.shape is not None and len(request.shape) > 1}
    leading = {shape[0] for shape in shapes}
    if len(shapes) < 2 or len(leading) > 1:
        return None
    batch = leading.pop()
    return batch if batch > 1 else None
