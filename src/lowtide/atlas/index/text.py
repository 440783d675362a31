"""Names as columns: hashed, numbered and kept once, a batch at a time and without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.uint32]

SLASH, COLON, CARET = b"/:^"

# Names are hashed eight bytes at a time: each word is mixed with its place, and the sum over a name is mixed again. Two
# of ten million names share a hash with a probability below one in a hundred thousand. This is part of an index's
# version.
_WORD = 8
_PLACE, _FIRST, _SECOND = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_LENGTH = np.uint64(0xD1342543DE82EF95)
# Which bits of a word belong to a piece that has so many bytes left.
_USED = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], np.uint64)
# What is longer is hashed by itself, all its words at once.
_LONG = 512
# A part of a file that is as small is looked through for a byte as a whole.
_REGION = 1 << 23
# So few hashes lie in the processor's cache.
_FEW = 1 << 14
# Hashes that came last are merged with all others once they are more than this share of those.
_RECENT_SHARE = 0.125


def hash_spans(data: Bytes, starts: Indices, ends: Indices) -> Hashes:
    """A number for each piece `data[starts[i]:ends[i]]`; equal pieces have equal ones."""
    length = ends - starts
    sums = np.zeros(len(starts), np.uint64)
    for row in np.flatnonzero(length > _LONG):
        sums[row] = _hash_long(data, int(starts[row]), int(ends[row]))
    rows = np.flatnonzero((length > 0) & (length <= _LONG))
    at, left = starts[rows], length[rows]
    place = np.uint64(0)
    while len(rows):
        sums[rows] += mix(_words(data, at, left), place)
        place += np.uint64(1)
        go_on = np.flatnonzero(left > _WORD)
        rows, at, left = rows[go_on], at[go_on] + _WORD, left[go_on] - _WORD
    return mix(sums, length.astype(np.uint64) * _LENGTH)


def mix(words: Hashes, place: Hashes | np.uint64) -> Hashes:
    """Words that each depend on every bit of what they were, and on a place."""
    # Wrapping around is what hashing does; for single numbers NumPy would warn of it.
    with np.errstate(over="ignore"):
        words = words + (place + np.uint64(1)) * _PLACE
        words ^= words >> np.uint64(30)
        words *= _FIRST
        words ^= words >> np.uint64(27)
        words *= _SECOND
    words ^= words >> np.uint64(31)
    return words


def _words(data: Bytes, at: Indices, left: Indices) -> Hashes:
    """The eight bytes at each place, with zeros for those behind the end of a piece."""
    whole = len(data) - _WORD + 1
    outside = np.flatnonzero(at >= whole)
    if whole > 0:
        # Every place of the file as the begin of a word: nothing is copied for that.
        everywhere = np.ndarray((whole,), np.dtype("<u8"), data.data, strides=(1,))
        within = np.minimum(at, whole - 1) if len(outside) else at
        words: Hashes = everywhere[within].astype(np.uint64, copy=False)
    else:
        words = np.zeros(len(at), np.uint64)
    for row in outside:
        last = data[int(at[row]) : int(at[row]) + _WORD].tobytes()
        words[row] = int.from_bytes(last, "little")
    words &= _USED[np.minimum(left, _WORD)]
    return words


def _hash_long(data: Bytes, start: int, end: int) -> np.uint64:
    total = np.uint64(0)
    for low in range(start, end, _REGION):
        at = np.arange(low, min(low + _REGION, end), _WORD)
        place = ((at - start) // _WORD).astype(np.uint64)
        with np.errstate(over="ignore"):
            total += mix(_words(data, at, end - at), place).sum(dtype=np.uint64)
    return np.uint64(total)


def hash_text(text: str) -> int:
    """The hash of one text."""
    return int(hash_texts([text.encode()])[0])


def hash_texts(texts: Sequence[bytes]) -> Hashes:
    """The hashes of some texts."""
    content = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.cumsum(np.array([len(text) for text in texts], np.int64))
    return hash_spans(content, np.concatenate([np.zeros(1, np.int64), ends])[:-1], ends)


def gather(data: Bytes, starts: Indices, ends: Indices) -> Bytes:
    """The pieces `data[starts[i]:ends[i]]`, one after the other."""
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    return np.asarray(data[np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)])


class BytePositions:
    """Where a byte stands in pieces of a file, and perhaps between them."""

    def __init__(self, data: Bytes, starts: Indices, ends: Indices, byte: int) -> None:
        low = int(starts.min()) if len(starts) else 0
        high = int(ends.max()) if len(ends) else 0
        if high - low <= _REGION:
            # What lies between the pieces is looked at too: that is cheaper than to copy them.
            self.places: Indices = np.flatnonzero(data[low:high] == byte) + low
            return
        lengths = ends - starts
        found = np.flatnonzero(gather(data, starts, ends) == byte)
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        owner = np.searchsorted(first, found, side="right") - 1
        self.places = np.sort(found - first[owner] + starts[owner])

    def first(self, starts: Indices, ends: Indices) -> Indices:
        """Where it first stands in each piece; its end where it does not."""
        if not len(self.places):
            return ends.copy()
        place = self.places[np.minimum(np.searchsorted(self.places, starts), len(self.places) - 1)]
        return np.where((place >= starts) & (place < ends), place, ends)

    def last(self, starts: Indices, ends: Indices) -> Indices:
        """Where it last stands in each piece; one before its begin where it does not."""
        if not len(self.places):
            return starts - 1
        place = self.places[np.maximum(np.searchsorted(self.places, ends) - 1, 0)]
        return np.where((place >= starts) & (place < ends), place, starts - 1)

    def within(self, starts: Indices, ends: Indices) -> tuple[Indices, Indices]:
        """All places in the pieces: of which piece, and where."""
        low, high = np.searchsorted(self.places, starts), np.searchsorted(self.places, ends)
        counts = high - low
        before = np.cumsum(counts) - counts
        rows = np.arange(int(counts.sum())) + np.repeat(low - before, counts)
        return np.repeat(np.arange(len(starts)), counts), self.places[rows]


def starting_with(content: Bytes, starts: Indices, ends: Indices, beginning: bytes) -> Indices:
    """Which of the pieces `content[starts[i]:ends[i]]` begin so; byte by byte, since most differ early."""
    rows = np.flatnonzero(ends - starts >= len(beginning))
    for offset, byte in enumerate(beginning):
        rows = rows[content[starts[rows] + offset] == byte]
    return rows


def next_parts(content: Bytes, starts: Indices, ends: Indices, separators: bytes) -> tuple[Indices, Hashes]:
    """The length and the hash of what each piece begins with, up to a separator that is not its first byte."""
    is_separator = np.zeros(256, np.bool_)
    is_separator[list(separators)] = True
    length = np.zeros(len(starts), np.int64)
    rows = np.flatnonzero(starts < ends)
    offset = 0
    while len(rows) and offset < _LONG:
        if offset:
            rows = rows[~is_separator[content[starts[rows] + offset]]]
        length[rows] += 1
        offset += 1
        rows = rows[starts[rows] + offset < ends[rows]]
    return length, hash_spans(content, starts, starts + length)


class HashNumbering:
    """Numbers for hashes, in the order in which each came first."""

    def __init__(self) -> None:
        self._count = 0
        # What came last is in a table of its own until it is large enough to be merged: a table of millions is
        # written anew a few times, not with every batch.
        self._tables = [_SortedHashes.empty(), _SortedHashes.empty()]

    def __len__(self) -> int:
        return self._count

    def columns(self) -> tuple[Hashes, Ids]:
        """The hashes in ascending order, and the number of each."""
        known, recent = self._tables
        self._tables = [known.merged(recent), _SortedHashes.empty()]
        return self._tables[0].hashes, self._tables[0].numbers

    def find(self, hashes: Hashes) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """The number of each hash, and which are known at all; in ascending order they are found fastest."""
        known, recent = self._tables
        numbers, is_known = known.find(hashes)
        if len(recent.hashes):
            rest = np.flatnonzero(~is_known)
            numbers[rest], is_known[rest] = recent.find(hashes[rest])
        return numbers, is_known

    def add(self, hashes: Hashes) -> tuple[Ids, Indices]:
        """The number of each hash, and where in `hashes` those stand that were not known, in their order."""
        if len(self) <= _FEW:
            # Most batches bring nothing new, and in a small table that shows sooner than they are sorted.
            numbers, known = self.find(hashes)
            if known.all():
                return numbers, np.zeros(0, np.int64)
        distinct, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        numbers, known = self.find(distinct)
        added = np.flatnonzero(~known)
        if not len(added):
            return numbers[which], np.zeros(0, np.int64)
        # By first appearance, so that what contains another comes before it.
        fresh = added[np.argsort(first[added])]
        numbers[fresh] = np.arange(len(self), len(self) + len(fresh), dtype=np.uint32)
        self._count += len(fresh)
        largest, recent = self._tables
        recent = recent.merged(_SortedHashes(distinct[added], numbers[added]))
        if len(recent.hashes) > len(largest.hashes) * _RECENT_SHARE:
            largest, recent = largest.merged(recent), _SortedHashes.empty()
        self._tables = [largest, recent]
        return numbers[which], first[fresh]


@dataclass(frozen=True, slots=True)
class _SortedHashes:
    """Some hashes in ascending order, and the number of each."""

    hashes: Hashes
    numbers: Ids

    @staticmethod
    def empty() -> _SortedHashes:
        return _SortedHashes(np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    def find(self, hashes: Hashes) -> tuple[Ids, npt.NDArray[np.bool_]]:
        if not len(self.hashes):
            return np.zeros(len(hashes), np.uint32), np.zeros(len(hashes), np.bool_)
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return self.numbers[place], self.hashes[place] == hashes

    def merged(self, other: _SortedHashes) -> _SortedHashes:
        """Both as one; they have no hash in common."""
        if not len(self.hashes) or not len(other.hashes):
            return self if len(self.hashes) else other
        place = np.searchsorted(self.hashes, other.hashes)
        return _SortedHashes(np.insert(self.hashes, place, other.hashes), np.insert(self.numbers, place, other.numbers))


class TextPool:
    """Distinct texts in a file, each once, found again by number."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.numbering = HashNumbering()
        self._lengths: list[Indices] = []

    def __len__(self) -> int:
        return len(self.numbering)

    def add(self, data: Bytes, starts: Indices, ends: Indices, hashes: Hashes | None = None) -> Ids:
        """The number of each text `data[starts[i]:ends[i]]`, whose hashes may be known already."""
        numbers, fresh = self.numbering.add(hash_spans(data, starts, ends) if hashes is None else hashes)
        if len(fresh):
            self._file.write(gather(data, starts[fresh], ends[fresh]).tobytes())
            self._lengths.append(ends[fresh] - starts[fresh])
        return numbers

    def close(self) -> Indices:
        """Where each text begins in the file, and where the last one ends."""
        self._file.close()
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        return np.cumsum(lengths)
