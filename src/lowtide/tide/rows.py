"""One buffer of a tide as a row, and rows as the columns that a tide keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Buffers


@dataclass(frozen=True)
class Row:
    """What is known of one buffer."""

    name: str
    op: str
    layer: str | None
    kind: str
    dtype: str
    shape: tuple[int, ...] | None
    requested: int
    allocated: int
    born: int
    died: int
    source: str | None = None
    address: int | None = None


@dataclass(frozen=True)
class Part:
    """A value inside a block that XLA allocated in one piece."""

    name: str
    op: str
    layer: str | None
    kind: str
    dtype: str
    shape: tuple[int, ...] | None
    bytes: int
    source: str | None


def rows_of_block(
    parts: Sequence[Part], requested: int, allocated: int, born: int, died: int, address: int | None = None
) -> list[Row]:
    """One row for each value that lies in a block at its fullest moment.

    What the layout leaves unused, and what the allocator gave beyond it, is shared out among them: the block is there
    for their sake. So they lie one after the other here, and fill the block.
    """
    inside = sum(part.bytes for part in parts)
    if not inside:
        return [Row("temporary block", "XlaLaunch", None, "workspace", "uint8", None, requested, allocated, born, died,
                    None, address)]  # fmt: skip
    rows, end, filled = [], 0, 0
    for part in parts:
        start, filled = end, filled + part.bytes
        end = allocated * filled // inside
        rows.append(
            Row(
                part.name, part.op, part.layer, part.kind, part.dtype, part.shape, part.bytes, end - start, born, died,
                part.source, None if address is None else address + start,
            )
        )  # fmt: skip
    return rows


def buffers_of(rows: Sequence[Row]) -> Buffers:
    """The rows as columns; addresses, where all have one, count from the lowest."""
    addresses = [row.address for row in rows if row.address is not None]
    lowest = min(addresses, default=0)
    return Buffers(
        name=[row.name for row in rows],
        op=[row.op for row in rows],
        layer=[row.layer for row in rows],
        kind=np.array([KINDS.index(row.kind) for row in rows], np.uint8),
        dtype=[row.dtype for row in rows],
        shape=[row.shape for row in rows],
        requested=np.array([row.requested for row in rows], np.int64),
        allocated=np.array([row.allocated for row in rows], np.int64),
        born=np.array([row.born for row in rows], np.int32),
        died=np.array([row.died for row in rows], np.int32),
        source=[row.source for row in rows],
        address=np.array(addresses, np.int64) - lowest if rows and len(addresses) == len(rows) else None,
    )
