"""Names of nodes as scopes and leaves: `tower_0/block_1/add` is the leaf `add` in the scope `tower_0/block_1`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lowtide.atlas.index.arrays import Bytes, Hashes, Ids, Indices, run_starts
from lowtide.atlas.index.text import SLASH, BytePositions, HashNumbering, TextPool, hash_spans, hash_texts

# Each part of a graph is a namespace: the same name in two parts has two hashes.
_PART = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, slots=True)
class NameBatch:
    """The names of a batch, split into scopes and leaves; independent of the batches before."""

    start: Indices
    end: Indices
    seed: Hashes
    """The hash seed of the part that each name belongs to."""
    slashes: BytePositions
    last: Indices
    """The position of the last slash; one before the start where there is none."""
    hash: Hashes
    leaf: Hashes
    scopes: Hashes
    """The distinct hashes of the scopes of these names, ascending."""
    first: Indices
    """The first name in each of these scopes."""
    scope: Indices
    """The index of each name's scope in `scopes`."""

    @staticmethod
    def of(data: Bytes, starts: Indices, ends: Indices, part: Ids) -> NameBatch:
        seed = part_seeds(part)
        slashes = BytePositions(data, starts, ends, SLASH)
        last = slashes.last(starts, ends)
        around = _scope_hashes(data, starts, last, seed)
        # Names of one scope are mostly adjacent: only one of each run is sorted.
        begins = run_starts(around)
        runs = np.flatnonzero(begins)
        scopes, first, scope = np.unique(around[runs], return_index=True, return_inverse=True)
        first, scope = runs[first], scope[np.cumsum(begins) - 1]
        return NameBatch(
            starts,
            ends,
            seed,
            slashes,
            last,
            hash_spans(data, starts, ends) + seed,
            hash_spans(data, last + 1, ends),
            scopes,
            first,
            scope,
        )


def _scope_hashes(data: Bytes, starts: Indices, last: Indices, seed: Hashes) -> Hashes:
    """Hash the scope of each name, which ends at its last slash; a name without a slash is in the root of its part."""
    return np.where(last < starts, seed, seed + hash_spans(data, starts, np.maximum(last, starts)))


class ScopeTable:
    """The name scopes of a graph. The root of a part is a scope too; every scope is numbered after its parent."""

    def __init__(self, pool: Path) -> None:
        self.texts = TextPool(pool)
        self._numbering = HashNumbering()
        self._parent: list[Ids] = []
        self._leaf: list[Ids] = []
        self._hash: list[Hashes] = []

    def __len__(self) -> int:
        return len(self._numbering)

    def add(self, data: Bytes, names: NameBatch, part: Ids) -> tuple[Ids, Ids]:
        """Number the scopes of these names, and return the scope and the leaf text of each name."""
        self._add_roots(_distinct_parts(part))
        numbers, known = self._numbering.find(names.scopes)
        if not known.all():
            unknown = names.first[~known]
            hashes = names.scopes[~known]
            self._add_scopes(
                data, names.slashes, names.start[unknown], names.last[unknown], hashes, names.seed[unknown]
            )
            numbers, _ = self._numbering.find(names.scopes)
        return numbers[names.scope], self.texts.add(data, names.last + 1, names.end, names.leaf)

    def _add_scopes(
        self, data: Bytes, slashes: BytePositions, starts: Indices, ends: Indices, hashes: Hashes, seed: Hashes
    ) -> None:
        """Number some scopes and their unknown ancestors, the outermost first."""
        layers = []
        while len(starts):
            before = slashes.last(starts, ends)
            around = _scope_hashes(data, starts, before, seed)
            layers.append((before + 1, ends, hashes, around))
            distinct, first = np.unique(around, return_index=True)
            unknown = first[~self._numbering.find(distinct)[1]]
            starts, ends, hashes, seed = starts[unknown], before[unknown], around[unknown], seed[unknown]
        for begin, end, name, around in reversed(layers):
            _, fresh = self._numbering.add(name)
            self._parent.append(self._numbering.find(around[fresh])[0])
            self._leaf.append(self.texts.add(data, begin[fresh], end[fresh]))
            self._hash.append(name[fresh])

    def _add_roots(self, parts: Ids) -> None:
        seed = part_seeds(parts)
        numbers, fresh = self._numbering.add(seed)
        if len(fresh):
            self._parent.append(numbers[fresh])
            nothing = np.zeros(len(fresh), np.int64)
            self._leaf.append(self.texts.add(np.zeros(1, np.uint8), nothing, nothing))
            self._hash.append(seed[fresh])

    def roots(self, count: int) -> Indices:
        """Return the root of each part, including parts without nodes."""
        parts = np.arange(count, dtype=np.uint32)
        self._add_roots(parts)
        return self._numbering.find(part_seeds(parts))[0].astype(np.int64)

    def columns(self) -> tuple[Ids, Ids, Hashes]:
        """Return the parent (a root is its own), the leaf text and the name hash of each scope, and empty the table."""
        columns = np.concatenate(self._parent), np.concatenate(self._leaf), np.concatenate(self._hash)
        # With millions of scopes a second copy would matter.
        self._parent, self._leaf, self._hash = [], [], []
        self._numbering = HashNumbering()
        return columns


def _distinct_parts(part: Ids) -> Ids:
    """Return the distinct parts of a batch; most batches have one."""
    return part[:1] if len(part) and (part == part[0]).all() else np.unique(part)


def name_hashes(names: Sequence[str], part: int) -> Hashes:
    """Hash names of a part as `NameBatch` does."""
    seeds = part_seeds(np.full(len(names), part, np.uint32))
    return hash_texts([name.encode(errors="surrogateescape") for name in names]) + seeds


def part_seeds(part: Ids) -> Hashes:
    """Return the seed that is added to the hashes of a part's names; it is also the hash of the part's root."""
    return part.astype(np.uint64) * _PART
