"""Names of nodes as scopes and leaves: `tower_0/block_1/add` is the leaf `add` in the scope `tower_0/block_1`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.text import (
    SLASH,
    BytePositions,
    Bytes,
    Hashes,
    HashNumbering,
    Ids,
    Indices,
    TextPool,
    hash_spans,
    hash_texts,
)

# Parts of a graph have names of their own: the same name in two of them has two hashes.
_PART = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, slots=True)
class NameBatch:
    """The names of a batch, taken apart: what can be said of them without knowing those before."""

    start: Indices
    end: Indices
    seed: Hashes
    """What tells the parts of the graph apart."""
    slashes: BytePositions
    last: Indices
    """Where the last slash stands; one before the begin where there is none."""
    hash: Hashes
    leaf: Hashes
    scopes: Hashes
    """The scopes that these names lie in, each once and in ascending order."""
    first: Indices
    """The first name in each of them."""
    scope: Indices
    """Which of them each name lies in."""

    @staticmethod
    def of(data: Bytes, starts: Indices, ends: Indices, part: npt.NDArray[np.uint32]) -> NameBatch:
        seed = part_seeds(part)
        slashes = BytePositions(data, starts, ends, SLASH)
        last = slashes.last(starts, ends)
        around = _scope_hashes(data, starts, last, seed)
        # Names of one scope stand together: of each run of them one is sorted.
        begins = np.ones(len(around), np.bool_)
        begins[1:] = around[1:] != around[:-1]
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
    """The hash of the scope of each name whose last slash is there; a name without one lies in its part's root."""
    return np.where(last < starts, seed, seed + hash_spans(data, starts, np.maximum(last, starts)))


class ScopeTable:
    """The name scopes of a graph. A part's root is a scope too, and comes before all within it."""

    def __init__(self, pool: Path) -> None:
        self.texts = TextPool(pool)
        self._numbering = HashNumbering()
        self._parent: list[Ids] = []
        self._leaf: list[Ids] = []
        self._hash: list[Hashes] = []

    def __len__(self) -> int:
        return len(self._numbering)

    def add(self, data: Bytes, names: NameBatch, part: npt.NDArray[np.uint32]) -> tuple[Ids, Ids]:
        """Number the scopes that these names have, and give each name's scope and leaf."""
        self._add_roots(_distinct(part))
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
        """Number some scopes, and those around them that are not known either, the outermost first."""
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

    def _add_roots(self, parts: npt.NDArray[np.uint32]) -> None:
        seed = part_seeds(parts)
        numbers, fresh = self._numbering.add(seed)
        if len(fresh):
            self._parent.append(numbers[fresh])
            nothing = np.zeros(len(fresh), np.int64)
            self._leaf.append(self.texts.add(np.zeros(1, np.uint8), nothing, nothing))
            self._hash.append(seed[fresh])

    def roots(self, count: int) -> Indices:
        """The root of each part, also of those that have no node."""
        parts = np.arange(count, dtype=np.uint32)
        self._add_roots(parts)
        return self._numbering.find(part_seeds(parts))[0].astype(np.int64)

    def columns(self) -> tuple[Ids, Ids, Hashes]:
        """Of each scope its parent (a root is its own), leaf and hash of its name; asked for once, in the end."""
        columns = np.concatenate(self._parent), np.concatenate(self._leaf), np.concatenate(self._hash)
        # Of millions of scopes nothing is kept twice.
        self._parent, self._leaf, self._hash = [], [], []
        self._numbering = HashNumbering()
        return columns


def _distinct(part: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The parts of a batch; most often there is one."""
    return part[:1] if len(part) and (part == part[0]).all() else np.unique(part)


def name_hashes(names: Sequence[str], part: int) -> Hashes:
    """The hashes of names in a part, as `NameBatch` has them."""
    seeds = part_seeds(np.full(len(names), part, np.uint32))
    return hash_texts([name.encode(errors="surrogateescape") for name in names]) + seeds


def part_seeds(part: npt.NDArray[np.uint32]) -> Hashes:
    """What is added to the hashes of a part's names, and is the hash of its root."""
    return part.astype(np.uint64) * _PART
