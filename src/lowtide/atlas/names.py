"""Names of nodes as scopes and leaves: `tower_0/block_1/add` is the leaf `add` in the scope `tower_0/block_1`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lowtide.atlas.text import (
    SLASH,
    Bytes,
    Hashes,
    Numbering,
    Numbers,
    Places,
    Pool,
    Texts,
    gather,
    hashes_of,
    running_hashes,
)

# Parts of a graph have names of their own: the same name in two of them has two hashes.
_PART = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, slots=True)
class Named:
    """What the names of a batch say."""

    hash: Hashes
    scope: Numbers
    leaf: Numbers


class Scopes:
    """The name scopes of a graph. A part's root is a scope too, and comes before all within it."""

    def __init__(self, pool: Path) -> None:
        self.texts = Pool(pool)
        self._numbering = Numbering()
        self._parent: list[Numbers] = []
        self._leaf: list[Numbers] = []
        self._hash: list[Hashes] = []

    def __len__(self) -> int:
        return len(self._numbering)

    def add(self, data: Bytes, starts: Places, ends: Places, part: npt.NDArray[np.uint32]) -> Named:
        """Number the scopes that these names have, and give each name's scope and leaf."""
        self._add_roots(np.unique(part))
        texts = gather(data, starts, ends)
        sums = running_hashes(texts)
        first, seed = texts.first[:-1], part_seeds(part)
        before = sums[first] - seed
        slashes = np.flatnonzero(texts.content == SLASH)
        owner = np.searchsorted(texts.first, slashes, side="right") - 1
        # Later slashes overwrite earlier ones: the last one of each name stays.
        last = np.full(len(starts), -1, np.int64)
        last[owner] = slashes
        is_scoped = last >= 0
        parent = np.where(is_scoped, sums[last] - before, seed)
        distinct, named_first = np.unique(parent, return_index=True)
        unknown = named_first[~self._numbering.find(distinct)[1]]
        if len(unknown):
            within = np.isin(owner, unknown)
            self._add_scopes(data, texts, sums, before, slashes[within], owner[within], starts - first, seed)
        leaf_start = np.where(is_scoped, last + 1 - first + starts, starts)
        return Named(
            sums[texts.first[1:]] - before, self._numbering.find(parent)[0], self.texts.add(data, leaf_start, ends)
        )

    def _add_scopes(
        self,
        data: Bytes,
        texts: Texts,
        sums: Hashes,
        before: Hashes,
        slashes: Places,
        owner: Places,
        shift: Places,
        seed: Hashes,
    ) -> None:
        """Number the scopes that end at these slashes; `shift` leads from a place in the texts to one in the file."""
        # The first slash of a name ends a scope in the root, each further one a scope in the one before.
        is_first = np.ones(len(slashes), np.bool_)
        is_first[1:] = owner[1:] != owner[:-1]
        prefix = sums[slashes] - before[owner]
        above = np.where(is_first, seed[owner], np.roll(prefix, 1))
        begin = np.where(is_first, texts.first[:-1][owner], np.roll(slashes, 1) + 1)
        _, fresh = self._numbering.add(prefix)
        self._parent.append(self._numbering.find(above[fresh])[0])
        moved = shift[owner[fresh]]
        self._leaf.append(self.texts.add(data, begin[fresh] + moved, slashes[fresh] + moved))
        self._hash.append(prefix[fresh])

    def _add_roots(self, parts: npt.NDArray[np.uint32]) -> None:
        seed = part_seeds(parts)
        numbers, fresh = self._numbering.add(seed)
        if len(fresh):
            self._parent.append(numbers[fresh])
            nothing = np.zeros(len(fresh), np.int64)
            self._leaf.append(self.texts.add(np.zeros(1, np.uint8), nothing, nothing))
            self._hash.append(seed[fresh])

    def roots(self, count: int) -> Places:
        """The root of each part, also of those that have no node."""
        parts = np.arange(count, dtype=np.uint32)
        self._add_roots(parts)
        return self._numbering.find(part_seeds(parts))[0].astype(np.int64)

    def columns(self) -> tuple[Numbers, Numbers, Hashes]:
        """Of each scope its parent (a root is its own), its leaf, and the hash of its name."""
        return np.concatenate(self._parent), np.concatenate(self._leaf), np.concatenate(self._hash)


def name_hashes(names: Sequence[str], part: int) -> Hashes:
    """The hashes of names in a part, as `Named` has them."""
    encoded = [name.encode() for name in names]
    content = np.frombuffer(b"".join(encoded), np.uint8)
    first = np.concatenate([[0], np.cumsum([len(each) for each in encoded])]).astype(np.int64)
    return hashes_of(Texts(content, first)) + part_seeds(np.full(len(names), part, np.uint32))


def part_seeds(part: npt.NDArray[np.uint32]) -> Hashes:
    """What is added to the hashes of a part's names, and is the hash of its root."""
    return part.astype(np.uint64) * _PART
