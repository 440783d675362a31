"""Buffers of a tide as rows, and their conversion to the columns that a tide stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lowtide.tide.columns import Buffers
from lowtide.tide.kinds import KINDS
from lowtide.tide.owner import Owner


@dataclass(frozen=True)
class BufferRow:
    """One buffer: its owner, and the events at which it is allocated and freed."""

    owner: Owner
    born: int
    died: int


def split_block(block: Owner, values: Sequence[Owner]) -> list[Owner]:
    """Return one owner for each value that is in an XLA block at the block's fullest moment.

    `block` has the allocated and requested bytes and, if known, the address. The space that the layout leaves unused
    and the allocator's rounding are divided among the values in proportion to their sizes, so that they fill the
    block one after the other.
    """
    total_bytes = sum(value.bytes for value in values)
    if not total_bytes:
        return [replace(block, name="temporary block", op="XlaLaunch", kind="workspace", dtype="uint8")]
    owners, end, filled = [], 0, 0
    for value in values:
        start, filled = end, filled + value.bytes
        end = block.bytes * filled // total_bytes
        address = None if block.address is None else block.address + start
        owners.append(replace(value, bytes=end - start, requested_bytes=value.bytes, address=address))
    return owners


def buffers_of(rows: Sequence[BufferRow]) -> Buffers:
    """Return rows as columns; addresses, where all rows have one, count from the lowest."""
    owners = [row.owner for row in rows]
    addresses = [owner.address for owner in owners if owner.address is not None]
    return columns_of(
        owners,
        requested=np.array([owner.requested_bytes for owner in owners], np.int64),
        allocated=np.array([owner.bytes for owner in owners], np.int64),
        born=np.array([row.born for row in rows], np.int32),
        died=np.array([row.died for row in rows], np.int32),
        source=[owner.source for owner in owners],
        address=np.array(addresses, np.int64) - min(addresses) if rows and len(addresses) == len(rows) else None,
    )


def columns_of(
    owners: Sequence[Owner],
    *,
    requested: np.ndarray,
    allocated: np.ndarray,
    born: np.ndarray,
    died: np.ndarray,
    source: list[str | None],
    address: np.ndarray | None = None,
) -> Buffers:
    """Return the columns of buffers whose sizes and lifetimes are columns already."""
    return Buffers(
        name=[owner.name or "unknown" for owner in owners],
        op=[owner.op or "unknown" for owner in owners],
        layer=[owner.layer for owner in owners],
        kind=np.array([KINDS.index(owner.kind or "other") for owner in owners], np.uint8),
        dtype=[owner.dtype or "uint8" for owner in owners],
        shape=[owner.shape for owner in owners],
        requested=requested,
        allocated=allocated,
        born=born,
        died=died,
        source=source,
        address=address,
    )
