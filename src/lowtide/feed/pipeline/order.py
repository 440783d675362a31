"""Orders of samples: which one stands at a place of an epoch, as a function of the seed, without a list of all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]

# So many samples are permuted as a list, which is a draw from all permutations. Of more a list would take too much:
# those are permuted by a cipher, which finds the sample of a place by itself.
_MOST_LISTED = 1 << 20
# Of the samples of a window there are so many that whoever makes it has counted the list; a longer one takes a while.
_MOST_LISTED_IN_A_WINDOW = 1 << 23
LISTED_BYTES = 16
"""What the lists that are kept take for each sample of a window."""
_LISTING = threading.Lock()
_ROUNDS = 8
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Order(Protocol):
    """An order of all samples, another one in each epoch or always the same."""

    @property
    def count(self) -> int:
        """How many samples there are."""
        ...

    def at(self, epoch: int, places: Places) -> Places:
        """The samples at some places of an epoch."""
        ...

    def describe(self) -> str:
        """What it is, in a few words."""
        ...


@dataclass(frozen=True)
class InTurn:
    """The samples as they lie."""

    count: int

    def at(self, epoch: int, places: Places) -> Places:
        return places

    def describe(self) -> str:
        return f"{self.count:,} samples as they lie"


@dataclass(frozen=True)
class Shuffled:
    """A permutation of all samples, a new one in each epoch."""

    count: int
    seed: int

    def at(self, epoch: int, places: Places) -> Places:
        return permuted(self.count, places, self.seed, epoch)

    def describe(self) -> str:
        return f"a full shuffle of {self.count:,} samples by index, a new order each epoch"


@dataclass(frozen=True)
class InWindows:
    """A shuffle on two levels, where samples can be read only block by block.

    Blocks are permuted, and put together into windows as they then follow each other; the samples of a window are
    permuted. What is read at a time lies in one window or two.
    """

    blocks: Sequence[int]
    """How many samples each block has, as they lie."""
    window: int
    """About how many samples a window has."""
    seed: int
    most_blocks: int | None = None
    """How many blocks a window has, where that is what counts."""
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", sum(self.blocks))
        object.__setattr__(self, "blocks", tuple(self.blocks))

    def at(self, epoch: int, places: Places) -> Places:
        begins, lies, windows = _windows(self.blocks, self.window, self.most_blocks, self.seed, epoch)
        # First the place within the window that a place of the epoch is permuted to, then the block that lies there.
        inner = places.copy()
        which = np.searchsorted(windows, places, side="right") - 1
        for number in range(int(which.min()), int(which.max()) + 1) if len(which) else ():
            low, high = int(windows[number]), int(windows[number + 1])
            mine = which == number
            key = self.seed, epoch, number + 1
            inner[mine] = low + permuted(high - low, places[mine] - low, *key, most_listed=_MOST_LISTED_IN_A_WINDOW)
        block = np.searchsorted(begins, inner, side="right") - 1
        found: Places = lies[block] + inner - begins[block]
        return found

    def describe(self) -> str:
        return (
            f"a shuffle on two levels of {self.count:,} samples: the order of {len(self.blocks):,} blocks, then "
            f"among about {min(self.window, self.count):,} samples at a time"
        )


@lru_cache(maxsize=4)
def _windows(
    blocks: tuple[int, ...], window: int, most_blocks: int | None, seed: int, epoch: int
) -> tuple[Places, Places, Places]:
    """Where the permuted blocks begin in the epoch and in the source, and where windows begin and the last one ends."""
    sizes = np.array(blocks, np.int64)
    order = permuted(len(sizes), np.arange(len(sizes)), seed, epoch)
    before = np.cumsum(sizes) - sizes
    ends = np.cumsum(sizes[order])
    begins = ends - sizes[order]
    # A window ends with the first block that fills it.
    number = begins // max(window, 1) if most_blocks is None else np.arange(len(sizes)) // max(most_blocks, 1)
    is_first = np.ones(len(number), np.bool_)
    is_first[1:] = number[1:] != number[:-1]
    windows = np.append(begins[is_first], ends[-1] if len(ends) else 0)
    return begins, before[order], windows


def permuted(count: int, places: Places, *key: int, most_listed: int = _MOST_LISTED) -> Places:
    """What stands at some places of a permutation of `count` numbers, which the key determines."""
    if count <= 1:
        return np.zeros_like(places)
    if count <= most_listed:
        # Whoever comes while the list is made waits for it, instead of making it too.
        with _LISTING:
            listed = _listed(count, *key)
        found: Places = listed[places].astype(np.int64)
        return found
    half = np.uint64(((count - 1).bit_length() + 1) // 2)
    keys = np.random.SeedSequence(_words(key)).generate_state(_ROUNDS, np.uint64).astype(np.uint64)
    found = places.astype(np.int64)
    outside = np.arange(len(found))
    while len(outside):
        # The cipher permutes a power of four: whoever ends up outside goes on until he is within.
        found[outside] = _enciphered(found[outside].astype(np.uint64), half, keys).astype(np.int64)
        outside = outside[found[outside] >= count]
    return found


@lru_cache(maxsize=4)
def _listed(count: int, *key: int) -> npt.NDArray[np.int32]:
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence(_words(key))))
    return random.permutation(np.arange(count, dtype=np.int32))


def _words(key: Sequence[int]) -> list[int]:
    """A key as a seed: keys of other lengths are other seeds."""
    return [len(key), *(each & 0xFFFFFFFFFFFFFFFF for each in key)]


def _enciphered(
    values: npt.NDArray[np.uint64], half: np.uint64, keys: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """A Feistel network: in each round one half is changed by what the other half and a key give."""
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    for key in keys:
        word = right + key
        word = (word ^ (word >> np.uint64(30))) * _FIRST
        word = (word ^ (word >> np.uint64(27))) * _SECOND
        left, right = right, left ^ ((word ^ (word >> np.uint64(31))) & mask)
    joined: npt.NDArray[np.uint64] = (left << half) | right
    return joined


@dataclass(frozen=True)
class Shard:
    """Every so-manieth sample of an order: all shards together are the whole, and no two have one in common."""

    whole: Order
    index: int
    shards: int

    @property
    def count(self) -> int:
        return max(-(-(self.whole.count - self.index) // self.shards), 0)

    def at(self, epoch: int, places: Places) -> Places:
        return self.whole.at(epoch, places * self.shards + self.index)

    def describe(self) -> str:
        return f"{self.whole.describe()}; of these every {self.shards}th from number {self.index} on"
