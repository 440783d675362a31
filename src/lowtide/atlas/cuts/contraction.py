"""Edge contraction: the pairs of kept nodes that are joined by paths through nodes that were left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.index.arrays import Indices, Int32s, Mask, csr_entries, offsets, run_starts, sorted_unique

# Each dropped node remembers at most this many kept sources, the nearest. Without a bound, contracting a hub with
# thousands of inputs and readers would give millions of edges.
MOST_SOURCES = 8
# Below this number of pairs a Python loop is faster than a vectorized round.
_FEW = 32


@dataclass(frozen=True)
class ContractedEdges:
    """Pairs of kept nodes that are joined by a path through dropped nodes, each pair once."""

    source: Int32s
    target: Int32s
    crowded: int
    """The number of dropped nodes with more sources than are remembered."""


def contract_paths(source: Int32s, target: Int32s, kept: Mask) -> ContractedEdges:
    """Find the pairs of kept nodes that are joined by paths through dropped nodes."""
    search = _ContractionSearch(source, target, kept)
    begins = kept[source] & ~kept[target]
    found = search.accept(target[begins].astype(np.int64), source[begins].astype(np.int64))
    while len(found[0]):
        found = search.step_few(*found) if len(found[0]) < _FEW else search.step(*found)
    return search.paths(source, target)


class _ContractionSearch:
    """A breadth-first search from all kept nodes at once, so that each dropped node gets its nearest sources first."""

    def __init__(self, source: Int32s, target: Int32s, kept: Mask) -> None:
        self.kept = kept
        dropped = np.flatnonzero(~kept)
        self.row = np.zeros(len(kept), np.int64)
        self.row[dropped] = np.arange(len(dropped))
        # Paths continue only along edges between dropped nodes.
        inner = np.flatnonzero(~kept[source] & ~kept[target])
        order = inner[np.argsort(source[inner], kind="stable")]
        self.first = offsets(np.bincount(source[inner], minlength=len(kept)))
        self.readers = target[order]
        self.known = np.zeros(len(dropped), np.uint8)
        # `len(kept)` marks an empty slot.
        self.before = np.full((len(dropped), MOST_SOURCES), len(kept), np.int32)
        self.is_crowded = np.zeros(len(dropped), np.bool_)

    def accept(self, node: Indices, origin: Indices) -> tuple[Indices, Indices]:
        """Add sources (`origin`) to dropped nodes; return the pairs that are new and were accepted."""
        node, origin = np.divmod(sorted_unique(node * len(self.kept) + origin), len(self.kept))
        row = self.row[node]
        fresh = ~(self.before[row] == origin[:, None]).any(axis=1)
        node, origin, row = node[fresh], origin[fresh], row[fresh]
        if not len(node):
            return node, origin
        is_first = run_starts(row)
        begin = np.flatnonzero(is_first)
        rank = np.arange(len(row)) - begin[np.cumsum(is_first) - 1]
        place = self.known[row] + rank
        taken = place < MOST_SOURCES
        self.is_crowded[row[~taken]] = True
        self.before[row[taken], place[taken]] = origin[taken]
        self.known[row[begin]] = np.minimum(self.known[row[begin]] + np.diff(begin, append=len(row)), MOST_SOURCES)
        return node[taken], origin[taken]

    def step(self, node: Indices, origin: Indices) -> tuple[Indices, Indices]:
        """Pass the accepted pairs on to the readers of these nodes."""
        places, counts = csr_entries(self.first, node)
        return self.accept(self.readers[places].astype(np.int64), np.repeat(origin, counts))

    def step_few(self, node: Indices, origin: Indices) -> tuple[Indices, Indices]:
        """Do the same in Python for a few pairs: a chain of a million nodes takes a million rounds."""
        taken: list[tuple[int, int]] = []
        for each, begin in zip(node.tolist(), origin.tolist(), strict=True):
            for reader in self.readers[self.first[each] : self.first[each + 1]].tolist():
                row = int(self.row[reader])
                count = int(self.known[row])
                if begin in self.before[row, :count].tolist():
                    continue
                if count == MOST_SOURCES:
                    self.is_crowded[row] = True
                    continue
                self.before[row, count] = begin
                self.known[row] = count + 1
                taken.append((reader, begin))
        pairs = np.array(taken, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def paths(self, source: Int32s, target: Int32s) -> ContractedEdges:
        """Join the sources of each dropped node with the kept nodes that read it."""
        ends = np.flatnonzero(~self.kept[source] & self.kept[target])
        before = self.before[self.row[source[ends]]]
        rows, columns = np.nonzero(before != len(self.kept))
        begin, end = before[rows, columns].astype(np.int64), target[ends][rows].astype(np.int64)
        pairs = sorted_unique(begin * len(self.kept) + end)
        begin, end = np.divmod(pairs, len(self.kept))
        other = begin != end
        return ContractedEdges(
            begin[other].astype(np.int32), end[other].astype(np.int32), int(np.count_nonzero(self.is_crowded))
        )
