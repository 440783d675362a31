"""Edge contraction: the pairs of kept nodes that are joined by paths through nodes that were left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.atlas.index.arrays import Indices, Int32s, Mask, csr_entries, offsets

# So many kept nodes are remembered for each one that is left out: the nearest. Without a bound a hub that feeds and is
# fed by thousands would become millions of edges.
MOST_SOURCES = 8
# A round over columns costs as much as some dozens of pairs one by one.
_FEW = 32


@dataclass(frozen=True)
class ContractedEdges:
    """From which kept node to which a path leads through others, each pair once."""

    source: Int32s
    target: Int32s
    crowded: int
    """How many of those left out have more kept nodes before them than are remembered."""


def contract_paths(source: Int32s, target: Int32s, kept: Mask) -> ContractedEdges:
    """Find the pairs of kept nodes that are joined by paths through dropped nodes."""
    search = _ContractionSearch(source, target, kept)
    begins = kept[source] & ~kept[target]
    found = search.accept(target[begins].astype(np.int64), source[begins].astype(np.int64))
    while len(found[0]):
        found = search.step_few(*found) if len(found[0]) < _FEW else search.step(*found)
    return search.paths(source, target)


class _ContractionSearch:
    """A search in breadth from all kept nodes at once, so that each node left out hears of the nearest first."""

    def __init__(self, source: Int32s, target: Int32s, kept: Mask) -> None:
        self.kept = kept
        dropped = np.flatnonzero(~kept)
        self.row = np.zeros(len(kept), np.int64)
        self.row[dropped] = np.arange(len(dropped))
        # Only edges between nodes that are left out lead on.
        inner = np.flatnonzero(~kept[source] & ~kept[target])
        order = inner[np.argsort(source[inner], kind="stable")]
        self.first = offsets(np.bincount(source[inner], minlength=len(kept)))
        self.readers = target[order]
        self.known = np.zeros(len(dropped), np.uint8)
        # Past the last node: nobody.
        self.before = np.full((len(dropped), MOST_SOURCES), len(kept), np.int32)
        self.is_crowded = np.zeros(len(dropped), np.bool_)

    def accept(self, node: Indices, origin: Indices) -> tuple[Indices, Indices]:
        """Remember which kept node leads to which one left out; returns the pairs that are new and were taken."""
        node, origin = np.divmod(_distinct(node * len(self.kept) + origin), len(self.kept))
        row = self.row[node]
        fresh = ~(self.before[row] == origin[:, None]).any(axis=1)
        node, origin, row = node[fresh], origin[fresh], row[fresh]
        if not len(node):
            return node, origin
        is_first = np.ones(len(row), np.bool_)
        is_first[1:] = row[1:] != row[:-1]
        begin = np.flatnonzero(is_first)
        rank = np.arange(len(row)) - begin[np.cumsum(is_first) - 1]
        place = self.known[row] + rank
        taken = place < MOST_SOURCES
        self.is_crowded[row[~taken]] = True
        self.before[row[taken], place[taken]] = origin[taken]
        self.known[row[begin]] = np.minimum(self.known[row[begin]] + np.diff(begin, append=len(row)), MOST_SOURCES)
        return node[taken], origin[taken]

    def step(self, node: Indices, origin: Indices) -> tuple[Indices, Indices]:
        """Pass what was taken on to those that read these nodes."""
        places, counts = csr_entries(self.first, node)
        return self.accept(self.readers[places].astype(np.int64), np.repeat(origin, counts))

    def step_few(self, node: Indices, origin: Indices) -> tuple[Indices, Indices]:
        """The same for a handful: a chain of a million nodes has a million rounds."""
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
        """Put what each node left out has heard together with the kept nodes that read it."""
        ends = np.flatnonzero(~self.kept[source] & self.kept[target])
        before = self.before[self.row[source[ends]]]
        rows, columns = np.nonzero(before != len(self.kept))
        begin, end = before[rows, columns].astype(np.int64), target[ends][rows].astype(np.int64)
        pairs = _distinct(begin * len(self.kept) + end)
        begin, end = np.divmod(pairs, len(self.kept))
        other = begin != end
        return ContractedEdges(
            begin[other].astype(np.int32), end[other].astype(np.int32), int(np.count_nonzero(self.is_crowded))
        )


def _distinct(values: Indices) -> Indices:
    """Each value once, in ascending order; several times faster than np.unique, which hashes."""
    values = np.sort(values)
    is_new = np.ones(len(values), np.bool_)
    is_new[1:] = values[1:] != values[:-1]
    return values[is_new]
