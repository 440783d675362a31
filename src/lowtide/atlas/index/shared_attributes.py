"""Parse attributes once for all nodes of a batch whose attributes are the same bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.index.arrays import Bytes, Hashes, Indices, csr_entries, offsets
from lowtide.atlas.index.outputs import Outputs, read_outputs
from lowtide.atlas.index.text import hash_spans
from lowtide.sources.protobuf.wire_columns import Fields

# Longer attributes are mostly constants, which are seldom equal, so hashing them does not pay.
_LONG = 512


def read_distinct_outputs(data: Bytes, count: int, attributes: Fields, op: Hashes) -> Outputs:
    """Return what `read_outputs` returns, but parse the attributes of equal nodes only once."""
    distinct = _DistinctNodes.of(data, count, attributes, op)
    place = np.full(count, -1, np.int64)
    place[distinct.first] = np.arange(len(distinct.first))
    shown = attributes.where(place[attributes.owner] >= 0)
    of_distinct = Fields(place[shown.owner], shown.number, shown.kind, shown.start, shown.end, shown.broken)
    return _expand(read_outputs(data, len(distinct.first), of_distinct, op[distinct.first]), distinct.kind)


@dataclass(frozen=True, slots=True)
class _DistinctNodes:
    """Nodes with equal op and attributes form a kind: the first node of each kind, and the kind of each node."""

    first: Indices
    kind: Indices

    @staticmethod
    def of(data: Bytes, count: int, attributes: Fields, op: Hashes) -> _DistinctNodes:
        start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
        # The attributes of a node are adjacent. Assigned in reverse, the first start remains.
        start[attributes.owner[::-1]] = attributes.start[::-1]
        end[attributes.owner] = attributes.end
        is_long = end - start > _LONG
        # A node with long attributes forms its own kind: its position in the file replaces the hash.
        mark = hash_spans(data, start, np.where(is_long, start, end)) + op
        mark[is_long] += start[is_long].astype(np.uint64) * np.uint64(0xD1342543DE82EF95)
        _, first, kind = np.unique(mark, return_index=True, return_inverse=True)
        return _DistinctNodes(first, kind)


def _expand(outputs: Outputs, kind: Indices) -> Outputs:
    """Repeat the outputs of each kind for each node of that kind."""
    places, counts = csr_entries(offsets(outputs.count), kind)
    caller, start, end = outputs.calls
    by_caller = np.argsort(caller, kind="stable")
    calls, called = csr_entries(offsets(np.bincount(caller, minlength=len(outputs.count))), kind)
    chosen = by_caller[calls]
    return Outputs(
        counts,
        outputs.dtype[kind],
        outputs.bytes[places],
        outputs.is_sized[places],
        (np.repeat(np.arange(len(kind)), called), start[chosen], end[chosen]),
    )
