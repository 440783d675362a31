"""Names as columns: hashed, numbered and kept once, a batch at a time and without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.uint32]

SLASH, COLON, CARET = b"/:^"

# One random number for each byte at each of so many places: the sum over a name is its hash. Two of ten million names
# share one with a probability below one in a hundred thousand. The seed is part of an index's version.
_PLACES = 256
_TABLE: Hashes = np.random.default_rng(0x10371DE).integers(0, 2**64, (_PLACES, 256), np.uint64).reshape(-1)
# What comes after so many places is told from what came before by an odd factor.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Texts:
    """Pieces of a file, one after the other: piece `i` is `content[first[i]:first[i + 1]]`."""

    content: Bytes
    first: Places

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def owner(self) -> Places:
        """The piece that each byte belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))


def gather(data: Bytes, starts: Places, ends: Places) -> Texts:
    """Copy the pieces `data[starts[i]:ends[i]]`."""
    lengths = ends - starts
    first = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=first[1:])
    places = np.arange(first[-1]) + np.repeat(starts - first[:-1], lengths)
    return Texts(data[places], first)


def running_hashes(texts: Texts) -> Hashes:
    """Sums over the bytes: the hash of any beginning of a piece is the difference of two of them (modulo 2**64)."""
    place = np.arange(len(texts.content)) - np.repeat(texts.first[:-1], np.diff(texts.first))
    terms = _TABLE[((place & (_PLACES - 1)) << 8) | texts.content]
    if len(place) and place.max() >= _PLACES:
        terms *= np.uint64(2) * (place // _PLACES).astype(np.uint64) * _FACTOR + np.uint64(1)
    sums = np.zeros(len(terms) + 1, np.uint64)
    np.cumsum(terms, out=sums[1:])
    return sums


def hashes_of(texts: Texts) -> Hashes:
    """A number for each piece; equal pieces have equal ones."""
    sums = running_hashes(texts)
    return sums[texts.first[1:]] - sums[texts.first[:-1]]


def hash_of(text: str) -> int:
    """The hash of one text."""
    content = np.frombuffer(text.encode(), np.uint8)
    return int(hashes_of(Texts(content, np.array([0, len(content)])))[0])


class Numbering:
    """Numbers for hashes, in the order in which each came first."""

    def __init__(self) -> None:
        self._known: Hashes = np.zeros(0, np.uint64)
        self._number: Numbers = np.zeros(0, np.uint32)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def columns(self) -> tuple[Hashes, Numbers]:
        """The hashes in ascending order, and the number of each."""
        return self._known, self._number

    def find(self, hashes: Hashes) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The number of each hash, and which are known at all."""
        if not len(self._known):
            return np.zeros(len(hashes), np.uint32), np.zeros(len(hashes), np.bool_)
        place = np.minimum(np.searchsorted(self._known, hashes), len(self._known) - 1)
        return self._number[place], self._known[place] == hashes

    def add(self, hashes: Hashes) -> tuple[Numbers, Places]:
        """The number of each hash, and where in `hashes` those stand that were not known, in their order."""
        distinct, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        numbers, known = self.find(distinct)
        fresh = np.flatnonzero(~known)
        # By first appearance, so that what contains another comes before it.
        fresh = fresh[np.argsort(first[fresh])]
        numbers[fresh] = np.arange(len(self), len(self) + len(fresh), dtype=np.uint32)
        added = np.sort(fresh)
        place = np.searchsorted(self._known, distinct[added])
        self._known = np.insert(self._known, place, distinct[added])
        self._number = np.insert(self._number, place, numbers[added])
        return numbers[which], first[fresh]


class Pool:
    """Distinct texts in a file, each once, found again by number."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.numbering = Numbering()
        self._lengths: list[Places] = []

    def __len__(self) -> int:
        return len(self.numbering)

    def add(self, data: Bytes, starts: Places, ends: Places) -> Numbers:
        """The number of each text `data[starts[i]:ends[i]]`."""
        hashes = hashes_of(gather(data, starts, ends))
        numbers, fresh = self.numbering.add(hashes)
        if len(fresh):
            texts = gather(data, starts[fresh], ends[fresh])
            self._file.write(texts.content.tobytes())
            self._lengths.append(np.diff(texts.first))
        return numbers

    def numbers_of(self, texts: Iterable[str]) -> Numbers:
        """The numbers of those of the texts that are there."""
        numbers, known = self.numbering.find(np.array([hash_of(text) for text in texts], np.uint64))
        return numbers[known]

    def close(self) -> Places:
        """Where each text begins in the file, and where the last one ends."""
        self._file.close()
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        return np.cumsum(lengths)
