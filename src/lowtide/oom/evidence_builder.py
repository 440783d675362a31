"""Collects what the lines of a log say about one allocation failure."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

import numpy as np

from lowtide.oom.devices_at_start import DevicesAtStart
from lowtide.oom.evidence import Evidence, Exhausted, Request
from lowtide.oom.heap import Heap, build_heap
from lowtide.tide.owner import Owner

# Bounds on what is kept of a log, which may contain anything.
_MOST_BLOCKS = 2_000_000
_MOST_HOLDERS = 2_000

# TensorFlow cuts amounts such as 1.32GiB after two digits, those in KiB after one.
_ROUNDING = 0.006


@dataclass
class EvidenceBuilder:
    """The facts about one failure, in the order of the log's lines."""

    line: int
    last_line: int
    writer: bytes = b""
    """The prefix that the log puts before the lines of the process; b"" if there is none."""
    request: Request = field(default_factory=Request)
    exact: bool = False
    """Whether the bytes of the request are exact."""
    blocks: array[int] = field(default_factory=lambda: array("q"))
    """Address, size, requested bytes and in-use flag of each block, flattened."""
    summary: dict[int, int] = field(default_factory=dict)
    """The number of blocks in use by size."""
    allocator: str | None = None
    limit_bytes: int | None = None
    bytes_in_use: int | None = None
    peak_bytes: int | None = None
    available_bytes: int | None = None
    region_bytes: int = 0
    has_start: bool = False
    """Whether the dump was read from its first line."""
    has_summary: bool = False
    """Whether the summary that follows the list of blocks was reached."""
    cut_short: bool = False
    requester: str | None = None
    """What the allocator names as the requester: an eager op, the path of a node, or "" for neither."""
    compiled: bool = False
    profiled: bool = False
    """Whether memory ran out while cuDNN's algorithms were tried."""
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    """What a message states of the free memory; of an allocator's dump it is computed."""
    exhausted: Exhausted | None = None
    filling: tuple[int, int] | None = None
    """How many elements the shuffle buffer had that was being filled, and of how many."""
    devices: DevicesAtStart = field(default_factory=DevicesAtStart)
    """The GPUs when the program began to use them."""
    holders: list[Owner] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def has_dump(self) -> bool:
        """Whether any part of the allocator's dump has been read."""
        return self.has_start or bool(self.blocks) or self.has_summary

    def add_to_request(self, **facts: object) -> None:
        """Set those fields of the request that are still unknown."""
        known = {name: value for name, value in facts.items() if value is not None}
        new = {name: value for name, value in known.items() if getattr(self.request, name) is None}
        if new:
            self.request = replace(self.request, **new)  # type: ignore[arg-type]

    def set_bytes(self, amount: int | None, *, exact: bool) -> None:
        """Set the size of the request, unless a better figure is known."""
        if amount is not None and (self.request.bytes is None or (exact and not self.exact)):
            self.request = replace(self.request, bytes=amount)
            self.exact = exact

    def matches(self, amount: int | None, *, exact: bool) -> bool:
        """Whether a request of `amount` bytes may be this one."""
        known = self.request.bytes
        if amount is None or known is None:
            return True
        # The allocator rounds up to 256 bytes; an amount with a unit is rounded to its last digit.
        return abs(amount - known) <= max(256, 0 if self.exact and exact else _ROUNDING * known)

    def add_block(self, address: int, size: int, in_use: bool) -> None:
        """Add one block of the dump."""
        if len(self.blocks) < 4 * _MOST_BLOCKS:
            self.blocks.extend((address, size, 0, in_use))
        else:
            self.cut_short = True

    def add_note(self, text: str) -> None:
        """Add a note for the reader of the explanation, once."""
        if text not in self.notes:
            self.notes.append(text)

    def add_holder(self, holder: Owner) -> None:
        """Add a holder that the log lists."""
        if len(self.holders) < _MOST_HOLDERS:
            self.holders.append(holder)

    def build(self) -> Evidence:
        """Return the evidence."""
        heap, notes = self._build_heap(), list(self.notes)
        if heap is not None and not heap.complete and len(heap):
            notes.append("the allocator's list of blocks is cut off: how much was free in one piece is not known")
        self.add_to_request(allocator=self.allocator)
        if self.requester and self.request.node is None and self.request.op is None:
            # An eager op is named by its type, a node of a graph by its path.
            self.add_to_request(**{"node" if "/" in self.requester else "op": self.requester})
        device = self.devices.find(self.request)
        evidence = Evidence(
            self.request,
            holders=self._all_holders(heap),
            request_kind="input" if self.request.allocator == "numpy" else None,
            outside_ops=self.requester == "" and not self.compiled and (self.request.node or self.request.op) is None,
            compiled=self.compiled,
            exhausted=self.exhausted,
            filling=self.filling,
            device_free_bytes=device.free_bytes,
            device_total_bytes=device.total_bytes,
            device_given_bytes=device.given_bytes,
            line=self.line,
            notes=tuple(notes),
        )
        if heap is not None:
            return evidence.with_heap(heap)
        if self.exhausted is not None:
            return replace(evidence, in_use_bytes=self.bytes_in_use, limit_bytes=self.limit_bytes)
        return replace(evidence, free_bytes=self.free_bytes, largest_free_bytes=self.largest_free_bytes)

    def _all_holders(self, heap: Heap | None) -> tuple[Owner, ...]:
        """Return the holders that the log lists, else the blocks of the summary or of the heap by size."""
        holders = self.holders
        if not holders and heap is not None:
            if not heap.complete:
                holders = [Owner(bytes=size * count, count=count) for size, count in self.summary.items()]
            if not holders:
                holders = [Owner(bytes=size * count, count=count) for size, count in heap.held_by_size()]
        return tuple(sorted(holders, key=lambda holder: -holder.bytes))

    def _build_heap(self) -> Heap | None:
        known = () if self.exhausted else (self.limit_bytes, self.bytes_in_use, self.peak_bytes)
        if not self.blocks and not self.summary and all(fact is None for fact in known):
            return None
        columns = np.frombuffer(self.blocks, np.int64).reshape(-1, 4)
        complete = self._is_complete(columns)
        in_use = self.bytes_in_use
        if complete:
            in_use = int(columns[columns[:, 3] != 0, 1].sum())
        elif in_use is None and self.summary:
            in_use = sum(size * count for size, count in self.summary.items())
        return build_heap(
            columns,
            limit_bytes=self.limit_bytes,
            bytes_in_use=in_use,
            peak_bytes=self.peak_bytes,
            allocator=self.allocator or self.request.allocator,
            available_bytes=self.available_bytes,
            complete=complete,
        )

    def _is_complete(self, columns: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> bool:
        if not self.has_start or not self.has_summary or self.cut_short:
            return False
        if self.region_bytes and int(columns[:, 1].sum()) != self.region_bytes:
            return False
        if not self.summary and columns[:, 3].any():
            return False
        sizes, counts = np.unique(columns[columns[:, 3] != 0, 1], return_counts=True)
        listed = dict(zip(sizes.tolist(), counts.tolist(), strict=True))
        # The summary may be cut off too, at its end, which lists the largest blocks.
        return all(listed.get(size) == count for size, count in self.summary.items())
