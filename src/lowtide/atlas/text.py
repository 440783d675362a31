"""Names as columns: hashed, numbered and kept once, a batch at a time and without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.uint32]

SLASH, COLON, CARET = b"/:^"

# Names are hashed eight bytes at a time: each word is mixed with its place, and the sum over a name is mixed again. Two
# of ten million names share a hash with a probability below one in a hundred thousand. This is part of an index's
# version.
_WORD = 8
_PLACE, _FIRST, _SECOND = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_LENGTH = np.uint64(0xD1342543DE82EF95)
# What is longer is hashed by itself, all its words at once.
_LONG = 512
# A part of a file that is as small is looked through for a byte as a whole.
_REGION = 1 << 23


def hash_pieces(data: Bytes, starts: Places, ends: Places) -> Hashes:
    """A number for each piece `data[starts[i]:ends[i]]`; equal pieces have equal ones."""
    length = ends - starts
    sums = np.zeros(len(starts), np.uint64)
    for row in np.flatnonzero(length > _LONG):
        sums[row] = _hash_long(data, int(starts[row]), int(ends[row]))
    rows = np.flatnonzero((length > 0) & (length <= _LONG))
    place = np.uint64(0)
    while len(rows):
        at = starts[rows] + int(place) * _WORD
        sums[rows] += _mixed(_words(data, at, ends[rows] - at), place)
        place += np.uint64(1)
        rows = rows[length[rows] > int(place) * _WORD]
    return _mixed(sums, length.astype(np.uint64) * _LENGTH)


def _mixed(words: Hashes, place: Hashes | np.uint64) -> Hashes:
    """Words that each depend on every bit of what they were, and on a place."""
    # Wrapping around is what hashing does; for single numbers NumPy would warn of it.
    with np.errstate(over="ignore"):
        words = words + (place + np.uint64(1)) * _PLACE
        words = (words ^ (words >> np.uint64(30))) * _FIRST
        words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _words(data: Bytes, at: Places, left: Places) -> Hashes:
    """The eight bytes at each place, with zeros for those behind the end of a piece."""
    whole = len(data) - _WORD + 1
    if whole > 0:
        # Every place of the file as the begin of a word: nothing is copied for that.
        everywhere = np.ndarray((whole,), np.dtype("<u8"), data.data, strides=(1,))
        words: Hashes = everywhere[np.minimum(at, whole - 1)].astype(np.uint64)
    else:
        words = np.zeros(len(at), np.uint64)
    for row in np.flatnonzero(at >= whole):
        last = data[int(at[row]) : int(at[row]) + _WORD].tobytes()
        words[row] = int.from_bytes(last, "little")
    unused = (_WORD - np.minimum(left, _WORD)).astype(np.uint64) * np.uint64(8)
    return np.where(left < _WORD, words << unused >> unused, words)


def _hash_long(data: Bytes, start: int, end: int) -> np.uint64:
    total = np.uint64(0)
    for low in range(start, end, _REGION):
        at = np.arange(low, min(low + _REGION, end), _WORD)
        place = ((at - start) // _WORD).astype(np.uint64)
        with np.errstate(over="ignore"):
            total += _mixed(_words(data, at, end - at), place).sum(dtype=np.uint64)
    return np.uint64(total)


def hash_of(text: str) -> int:
    """The hash of one text."""
    return int(hashes_of_texts([text.encode()])[0])


def hashes_of_texts(texts: Sequence[bytes]) -> Hashes:
    """The hashes of some texts."""
    content = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.cumsum(np.array([len(text) for text in texts], np.int64))
    return hash_pieces(content, np.concatenate([np.zeros(1, np.int64), ends])[:-1], ends)


def gather(data: Bytes, starts: Places, ends: Places) -> Bytes:
    """The pieces `data[starts[i]:ends[i]]`, one after the other."""
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    return np.asarray(data[np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)])


class BytePlaces:
    """Where a byte stands in pieces of a file, and perhaps between them."""

    def __init__(self, data: Bytes, starts: Places, ends: Places, byte: int) -> None:
        low = int(starts.min()) if len(starts) else 0
        high = int(ends.max()) if len(ends) else 0
        if high - low <= _REGION:
            # What lies between the pieces is looked at too: that is cheaper than to copy them.
            self.places: Places = np.flatnonzero(data[low:high] == byte) + low
            return
        lengths = ends - starts
        found = np.flatnonzero(gather(data, starts, ends) == byte)
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        owner = np.searchsorted(first, found, side="right") - 1
        self.places = np.sort(found - first[owner] + starts[owner])

    def first(self, starts: Places, ends: Places) -> Places:
        """Where it first stands in each piece; its end where it does not."""
        if not len(self.places):
            return ends.copy()
        place = self.places[np.minimum(np.searchsorted(self.places, starts), len(self.places) - 1)]
        return np.where((place >= starts) & (place < ends), place, ends)

    def last(self, starts: Places, ends: Places) -> Places:
        """Where it last stands in each piece; one before its begin where it does not."""
        if not len(self.places):
            return starts - 1
        place = self.places[np.maximum(np.searchsorted(self.places, ends) - 1, 0)]
        return np.where((place >= starts) & (place < ends), place, starts - 1)

    def within(self, starts: Places, ends: Places) -> tuple[Places, Places]:
        """All places in the pieces: of which piece, and where."""
        low, high = np.searchsorted(self.places, starts), np.searchsorted(self.places, ends)
        counts = high - low
        before = np.cumsum(counts) - counts
        rows = np.arange(int(counts.sum())) + np.repeat(low - before, counts)
        return np.repeat(np.arange(len(starts)), counts), self.places[rows]


def begin_with(content: Bytes, starts: Places, ends: Places, beginning: bytes) -> Places:
    """Which of the pieces `content[starts[i]:ends[i]]` begin so; byte by byte, since most differ early."""
    rows = np.flatnonzero(ends - starts >= len(beginning))
    for offset, byte in enumerate(beginning):
        rows = rows[content[starts[rows] + offset] == byte]
    return rows


def next_parts(content: Bytes, starts: Places, ends: Places, separators: bytes) -> tuple[Places, Hashes]:
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
    return length, hash_pieces(content, starts, starts + length)


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
        numbers, known = self.find(hashes)
        if known.all():
            return numbers, np.zeros(0, np.int64)
        distinct, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        numbers, known = numbers[first], known[first]
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
        numbers, fresh = self.numbering.add(hash_pieces(data, starts, ends))
        if len(fresh):
            self._file.write(gather(data, starts[fresh], ends[fresh]).tobytes())
            self._lengths.append(ends[fresh] - starts[fresh])
        return numbers

    def close(self) -> Places:
        """Where each text begins in the file, and where the last one ends."""
        self._file.close()
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        return np.cumsum(lengths)
