"""Orders of samples: the sample at a position of an epoch, computed from the seed without a list of all samples."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lowtide.feed.readers.samples import Indices
from lowtide.units import format_count

# Up to this many samples are permuted as a list, drawn uniformly from all permutations. A longer list would take too
# much memory: larger sets are permuted by a cipher, which computes the sample of each position independently.
_MOST_LISTED = 1 << 20
# The budget accounts for the list of a window, so that it may be longer; the limit is the time it takes to shuffle.
_MOST_LISTED_IN_A_WINDOW = 1 << 23
LISTED_BYTES = 16
"""The memory of the cached lists per sample of a window."""
_LISTING = threading.Lock()
_ROUNDS = 8
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Order(Protocol):
    """An order of all samples, which may differ between epochs."""

    @property
    def count(self) -> int:
        """The number of samples."""
        ...

    def at(self, epoch: int, positions: Indices) -> Indices:
        """The indices of the samples at some positions of an epoch."""
        ...

    def describe(self) -> str:
        """A short description."""
        ...


@dataclass(frozen=True)
class StoredOrder:
    """The samples in the order in which they are stored."""

    count: int

    def at(self, epoch: int, positions: Indices) -> Indices:
        return positions

    def describe(self) -> str:
        return f"{format_count(self.count, 'sample')} in stored order"


@dataclass(frozen=True)
class ShuffledOrder:
    """A permutation of all samples, a new one in each epoch."""

    count: int
    seed: int

    def at(self, epoch: int, positions: Indices) -> Indices:
        return permute(self.count, positions, self.seed, epoch)

    def describe(self) -> str:
        return f"a full shuffle of {format_count(self.count, 'sample')} by index, a new order each epoch"


@dataclass(frozen=True)
class WindowedOrder:
    """A shuffle on two levels, for samples that can be read only block by block.

    The blocks are permuted and consecutive ones are combined into windows; then the samples of each window are
    permuted. The samples of a batch are in one window, or in two.
    """

    blocks: Sequence[int]
    """The number of samples of each block, in stored order."""
    window: int
    """The approximate number of samples of a window."""
    seed: int
    most_blocks: int | None = None
    """The number of blocks of a window, if windows are limited by blocks instead of samples."""
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", sum(self.blocks))
        object.__setattr__(self, "blocks", tuple(self.blocks))

    def at(self, epoch: int, positions: Indices) -> Indices:
        starts, stored_starts, windows = _find_windows(self.blocks, self.window, self.most_blocks, self.seed, epoch)
        # First permute the positions within each window, then find the block at the permuted position.
        inner = positions.copy()
        window_of = np.searchsorted(windows, positions, side="right") - 1
        for number in range(int(window_of.min()), int(window_of.max()) + 1) if len(window_of) else ():
            low, high = int(windows[number]), int(windows[number + 1])
            chosen = window_of == number
            key = self.seed, epoch, number + 1
            permuted = permute(high - low, positions[chosen] - low, *key, most_listed=_MOST_LISTED_IN_A_WINDOW)
            inner[chosen] = low + permuted
        block = np.searchsorted(starts, inner, side="right") - 1
        samples: Indices = stored_starts[block] + inner - starts[block]
        return samples

    def describe(self) -> str:
        return (
            f"a shuffle on two levels of {format_count(self.count, 'sample')}: "
            f"the order of {format_count(len(self.blocks), 'block')}, then "
            f"among about {format_count(min(self.window, self.count), 'sample')} at a time"
        )


@lru_cache(maxsize=4)
def _find_windows(
    blocks: tuple[int, ...], window: int, most_blocks: int | None, seed: int, epoch: int
) -> tuple[Indices, Indices, Indices]:
    """Return the starts of the permuted blocks in the epoch and in the source, and the boundaries of the windows."""
    sizes = np.array(blocks, np.int64)
    order = permute(len(sizes), np.arange(len(sizes)), seed, epoch)
    stored_starts = np.cumsum(sizes) - sizes
    ends = np.cumsum(sizes[order])
    starts = ends - sizes[order]
    # A window ends with the first block that fills it.
    window_of = starts // max(window, 1) if most_blocks is None else np.arange(len(sizes)) // max(most_blocks, 1)
    is_first = np.ones(len(window_of), np.bool_)
    is_first[1:] = window_of[1:] != window_of[:-1]
    windows = np.append(starts[is_first], ends[-1] if len(ends) else 0)
    return starts, stored_starts[order], windows


def permute(count: int, positions: Indices, *key: int, most_listed: int = _MOST_LISTED) -> Indices:
    """The numbers at some positions of the permutation of `count` numbers that the key determines."""
    if count <= 1:
        return np.zeros_like(positions)
    if count <= most_listed:
        # Other threads wait for the list instead of computing it too.
        with _LISTING:
            listed = _list_permutation(count, *key)
        found: Indices = listed[positions].astype(np.int64)
        return found
    half_bits = np.uint64(((count - 1).bit_length() + 1) // 2)
    keys = np.random.SeedSequence(_seed_words(key)).generate_state(_ROUNDS, np.uint64).astype(np.uint64)
    found = positions.astype(np.int64)
    outside = np.arange(len(found))
    while len(outside):
        # The cipher permutes a power of four: numbers that are too large are enciphered again until they are not.
        found[outside] = _encipher(found[outside].astype(np.uint64), half_bits, keys).astype(np.int64)
        outside = outside[found[outside] >= count]
    return found


@lru_cache(maxsize=4)
def _list_permutation(count: int, *key: int) -> npt.NDArray[np.int32]:
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(_seed_words(key))))
    return random.permutation(np.arange(count, dtype=np.int32))


def _seed_words(key: Sequence[int]) -> list[int]:
    """A key as a seed; its length is part of the seed, so that keys of different lengths differ."""
    return [len(key), *(each & 0xFFFFFFFFFFFFFFFF for each in key)]


def _encipher(
    values: npt.NDArray[np.uint64], half_bits: np.uint64, keys: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """A Feistel network: each round changes one half by a hash of the other half and a key."""
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = values >> half_bits, values & mask
    for key in keys:
        word = right + key
        word = (word ^ (word >> np.uint64(30))) * _FIRST_FACTOR
        word = (word ^ (word >> np.uint64(27))) * _SECOND_FACTOR
        left, right = right, left ^ ((word ^ (word >> np.uint64(31))) & mask)
    joined: npt.NDArray[np.uint64] = (left << half_bits) | right
    return joined


@dataclass(frozen=True)
class ShardedOrder:
    """Every Nth sample of an order; the shards are disjoint and together cover all samples."""

    full: Order
    index: int
    shards: int

    @property
    def count(self) -> int:
        return max(-(-(self.full.count - self.index) // self.shards), 0)

    def at(self, epoch: int, positions: Indices) -> Indices:
        return self.full.at(epoch, positions * self.shards + self.index)

    def describe(self) -> str:
        return f"{self.full.describe()}; shard {self.index} of {self.shards}"
