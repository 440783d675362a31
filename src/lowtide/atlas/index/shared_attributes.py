"""Nodes of a batch whose attributes are the same bytes: read once, and told of each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.index.columns import csr_entries, offsets
from lowtide.atlas.index.outputs import Outputs, read_outputs
from lowtide.atlas.index.text import Bytes, Hashes, Indices, hash_spans
from lowtide.sources.protobuf.wire_columns import Fields

# Longer attributes are constants most often, and no two of those are alike.
_LONG = 512


def read_distinct_outputs(data: Bytes, count: int, attributes: Fields, op: Hashes) -> Outputs:
    """Read what the attributes of `count` nodes say, as `read_outputs` does; most nodes are like one before."""
    kinds = _Kinds.of(data, count, attributes, op)
    place = np.full(count, -1, np.int64)
    place[kinds.first] = np.arange(len(kinds.first))
    shown = attributes.where(place[attributes.owner] >= 0)
    of_kinds = Fields(place[shown.owner], shown.number, shown.kind, shown.start, shown.end, shown.broken)
    return _spread(read_outputs(data, len(kinds.first), of_kinds, op[kinds.first]), kinds.kind)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Which nodes are alike: the first node of each kind, and the kind of each node."""

    first: Indices
    kind: Indices

    @staticmethod
    def of(data: Bytes, count: int, attributes: Fields, op: Hashes) -> _Kinds:
        start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
        # The attributes of a node lie together: written backwards, the first one stays.
        start[attributes.owner[::-1]] = attributes.start[::-1]
        end[attributes.owner] = attributes.end
        is_long = end - start > _LONG
        # With nothing in common a long one is of a kind of its own: its place in the file is its hash.
        mark = hash_spans(data, start, np.where(is_long, start, end)) + op
        mark[is_long] += start[is_long].astype(np.uint64) * np.uint64(0xD1342543DE82EF95)
        _, first, kind = np.unique(mark, return_index=True, return_inverse=True)
        return _Kinds(first, kind)


def _spread(outputs: Outputs, kind: Indices) -> Outputs:
    """What was read of each kind, told of each node."""
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
