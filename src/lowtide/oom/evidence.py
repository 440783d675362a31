"""What has been read so far about one time that memory ran out."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

import numpy as np

from lowtide.oom.heap import Heap, build_heap
from lowtide.oom.log_report import Shortfall
from lowtide.oom.shortage import Holder, Request

# A log may hold anything: what is kept of it does not grow without end.
_MOST_BLOCKS = 2_000_000
_MOST_HOLDERS = 2_000

# Amounts such as 1.32GiB are cut after two digits, those in KiB after one.
_ROUNDING = 0.006


@dataclass
class Draft:
    """Gathers the facts of one shortfall as the lines come."""

    line: int
    last_line: int
    request: Request = field(default_factory=Request)
    exact: bool = False
    """Whether the bytes of the request are known to the byte."""
    blocks: array[int] = field(default_factory=lambda: array("q"))
    """Address, size, requested and in use of each block, one after the other."""
    summary: dict[int, int] = field(default_factory=dict)
    """How many blocks of which size are in use."""
    allocator: str | None = None
    limit_bytes: int | None = None
    bytes_in_use: int | None = None
    peak_bytes: int | None = None
    available_bytes: int | None = None
    region_bytes: int = 0
    begins_whole: bool = False
    """Whether the dump was read from its beginning."""
    summarised: bool = False
    """Whether the list of blocks was followed by its summary."""
    cut_short: bool = False
    asked_by: str | None = None
    """Who asked, as the allocator has it: an op that ran by itself, a node's path, or "" for nobody."""
    compiled: bool = False
    """Whether it was a compiled program that asked."""
    holders: list[Holder] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def has_dump(self) -> bool:
        """Whether anything of the allocator's dump has been read."""
        return self.begins_whole or bool(self.blocks) or self.summarised

    def learn(self, **facts: object) -> None:
        """Add to the request what was not known of it before."""
        known = {name: value for name, value in facts.items() if value is not None}
        new = {name: value for name, value in known.items() if getattr(self.request, name) is None}
        if new:
            self.request = replace(self.request, **new)  # type: ignore[arg-type]

    def set_bytes(self, amount: int | None, *, exact: bool) -> None:
        """Set the size of the request, unless it is known better."""
        if amount is not None and (self.request.bytes is None or (exact and not self.exact)):
            self.request = replace(self.request, bytes=amount)
            self.exact = exact

    def agrees(self, amount: int | None, *, exact: bool) -> bool:
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

    def note(self, text: str) -> None:
        """Keep a remark for the reader of the explanation, once."""
        if text not in self.notes:
            self.notes.append(text)

    def add_holder(self, holder: Holder) -> None:
        """Add a holder that the log names."""
        if len(self.holders) < _MOST_HOLDERS:
            self.holders.append(holder)

    def finish(self) -> Shortfall:
        """Return what the log says."""
        heap = self._heap()
        holders = sorted(self.holders, key=lambda holder: -holder.bytes)
        if not holders and heap is not None and not heap.complete:
            holders = self._summarised_holders()
        notes = list(self.notes)
        if heap is not None and not heap.complete and len(heap):
            notes.append("the allocator's list of blocks is cut off: how much was free in one piece is not known")
        self.learn(allocator=self.allocator)
        if self.asked_by and self.request.node is None and self.request.op is None:
            # An op that runs by itself goes by its type, a node of a graph by its path.
            self.learn(**{"node" if "/" in self.asked_by else "op": self.asked_by})
        outside = self.asked_by == "" and not self.compiled and (self.request.node or self.request.op) is None
        return Shortfall(self.request, heap, self.line, tuple(holders), tuple(notes), outside, self.compiled)

    def _heap(self) -> Heap | None:
        known = (self.limit_bytes, self.bytes_in_use, self.peak_bytes)
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
        if not self.begins_whole or not self.summarised or self.cut_short:
            return False
        if self.region_bytes and int(columns[:, 1].sum()) != self.region_bytes:
            return False
        if not self.summary and columns[:, 3].any():
            return False
        sizes, counts = np.unique(columns[columns[:, 3] != 0, 1], return_counts=True)
        listed = dict(zip(sizes.tolist(), counts.tolist(), strict=True))
        # The summary itself may be cut off at its end, where the largest are.
        return all(listed.get(size) == count for size, count in self.summary.items())

    def _summarised_holders(self) -> list[Holder]:
        groups = [Holder(size * count, count) for size, count in self.summary.items()]
        return sorted(groups, key=lambda holder: -holder.bytes)
