"""Texts as columns: spans of bytes that are hashed, numbered and stored once, without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lowtide.atlas.index.arrays import Bytes, Hashes, Ids, Indices, Mask, expand_ranges, offsets

SLASH, COLON, CARET = b"/:^"

# A text is hashed in words of eight bytes: each word is mixed with its position, and the sum is mixed again. The
# probability that any two of ten million texts share a hash is below one in a hundred thousand. A change of the hash
# needs a new schema version of the index.
_WORD = 8
_PLACE, _FIRST, _SECOND = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_LENGTH = np.uint64(0xD1342543DE82EF95)
# Masks for the last word of a text, by the number of bytes left.
_USED = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], np.uint64)
# Longer texts are hashed one by one, all words at once.
_LONG = 512
# Spans within a region of this size are searched for a byte together with the gaps between them.
_REGION = 1 << 23
# A table of this size fits in the processor's cache.
_FEW = 1 << 14
# The table of recent hashes is merged into the main one when it exceeds this share of it.
_RECENT_SHARE = 0.125


def hash_spans(data: Bytes, starts: Indices, ends: Indices) -> Hashes:
    """Hash each span `data[starts[i]:ends[i]]`."""
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
    """Return words in which every bit depends on all bits of the given word and of its position."""
    # Overflow is intended; NumPy warns of it for scalars.
    with np.errstate(over="ignore"):
        words = words + (place + np.uint64(1)) * _PLACE
        words ^= words >> np.uint64(30)
        words *= _FIRST
        words ^= words >> np.uint64(27)
        words *= _SECOND
    words ^= words >> np.uint64(31)
    return words


def _words(data: Bytes, at: Indices, left: Indices) -> Hashes:
    """Return the eight bytes at each position, with zeros after the end of the span."""
    whole = len(data) - _WORD + 1
    outside = np.flatnonzero(at >= whole)
    if whole > 0:
        # An unaligned view with a word at every byte of the file; nothing is copied.
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
    """Hash one text."""
    return int(hash_texts([text.encode()])[0])


def hash_texts(texts: Sequence[bytes]) -> Hashes:
    """Hash some texts."""
    content = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.cumsum(np.array([len(text) for text in texts], np.int64))
    return hash_spans(content, np.concatenate([np.zeros(1, np.int64), ends])[:-1], ends)


def gather_spans(data: Bytes, starts: Indices, ends: Indices) -> Bytes:
    """Concatenate the spans `data[starts[i]:ends[i]]`."""
    return np.asarray(data[expand_ranges(starts, ends - starts)])


class BytePositions:
    """The positions of a byte in spans of a file, and possibly in the gaps between them."""

    def __init__(self, data: Bytes, starts: Indices, ends: Indices, byte: int) -> None:
        low = int(starts.min()) if len(starts) else 0
        high = int(ends.max()) if len(ends) else 0
        if high - low <= _REGION:
            # Searching the gaps too is cheaper than copying the spans.
            self.positions: Indices = np.flatnonzero(data[low:high] == byte) + low
            return
        lengths = ends - starts
        found = np.flatnonzero(gather_spans(data, starts, ends) == byte)
        first = offsets(lengths)
        owner = np.searchsorted(first, found, side="right") - 1
        self.positions = np.sort(found - first[owner] + starts[owner])

    def first(self, starts: Indices, ends: Indices) -> Indices:
        """Return the first position in each span; the end of the span where there is none."""
        if not len(self.positions):
            return ends.copy()
        place = self.positions[np.minimum(np.searchsorted(self.positions, starts), len(self.positions) - 1)]
        return np.where((place >= starts) & (place < ends), place, ends)

    def last(self, starts: Indices, ends: Indices) -> Indices:
        """Return the last position in each span; one before its start where there is none."""
        if not len(self.positions):
            return starts - 1
        place = self.positions[np.maximum(np.searchsorted(self.positions, ends) - 1, 0)]
        return np.where((place >= starts) & (place < ends), place, starts - 1)


def starting_with(content: Bytes, starts: Indices, ends: Indices, beginning: bytes) -> Indices:
    """Return which spans start with `beginning`; compared byte by byte, since most spans differ early."""
    rows = np.flatnonzero(ends - starts >= len(beginning))
    for offset, byte in enumerate(beginning):
        rows = rows[content[starts[rows] + offset] == byte]
    return rows


def next_name_parts(content: Bytes, starts: Indices, ends: Indices, separators: bytes) -> tuple[Indices, Hashes]:
    """Return length and hash of the start of each span, up to the first separator after its first byte."""
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
    """Numbers hashes in the order of their first appearance."""

    def __init__(self) -> None:
        self._count = 0
        # Recent hashes have a separate table until it is large enough to be merged: a table of millions is rewritten a
        # few times, not with every batch.
        self._tables = [_SortedHashes.empty(), _SortedHashes.empty()]

    def __len__(self) -> int:
        return self._count

    def columns(self) -> tuple[Hashes, Ids]:
        """Return the hashes in ascending order, and the number of each."""
        known, recent = self._tables
        self._tables = [known.merged(recent), _SortedHashes.empty()]
        return self._tables[0].hashes, self._tables[0].numbers

    def find(self, hashes: Hashes) -> tuple[Ids, Mask]:
        """Return the number of each hash, and which of them are known. Ascending hashes are found fastest."""
        known, recent = self._tables
        numbers, is_known = known.find(hashes)
        if len(recent.hashes):
            rest = np.flatnonzero(~is_known)
            numbers[rest], is_known[rest] = recent.find(hashes[rest])
        return numbers, is_known

    def add(self, hashes: Hashes) -> tuple[Ids, Indices]:
        """Return the number of each hash, and the indices of the new ones in `hashes`, by number."""
        if len(self) <= _FEW:
            # Most batches add nothing, and looking that up in a small table is faster than sorting the batch.
            numbers, known = self.find(hashes)
            if known.all():
                return numbers, np.zeros(0, np.int64)
        distinct, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        numbers, known = self.find(distinct)
        added = np.flatnonzero(~known)
        if not len(added):
            return numbers[which], np.zeros(0, np.int64)
        # By first appearance, so that a scope is numbered before the scopes within it.
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
    """Hashes in ascending order, and the number of each."""

    hashes: Hashes
    numbers: Ids

    @staticmethod
    def empty() -> _SortedHashes:
        return _SortedHashes(np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    def find(self, hashes: Hashes) -> tuple[Ids, Mask]:
        if not len(self.hashes):
            return np.zeros(len(hashes), np.uint32), np.zeros(len(hashes), np.bool_)
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return self.numbers[place], self.hashes[place] == hashes

    def merged(self, other: _SortedHashes) -> _SortedHashes:
        """Merge two tables that have no hash in common."""
        if not len(self.hashes) or not len(other.hashes):
            return self if len(self.hashes) else other
        place = np.searchsorted(self.hashes, other.hashes)
        return _SortedHashes(np.insert(self.hashes, place, other.hashes), np.insert(self.numbers, place, other.numbers))


class TextPool:
    """Distinct texts, stored once each in a file and referred to by number."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.numbering = HashNumbering()
        self._lengths: list[Indices] = []

    def __len__(self) -> int:
        return len(self.numbering)

    def add(self, data: Bytes, starts: Indices, ends: Indices, hashes: Hashes | None = None) -> Ids:
        """Return the number of each text `data[starts[i]:ends[i]]`, adding new ones; `hashes` may be given if known."""
        numbers, fresh = self.numbering.add(hash_spans(data, starts, ends) if hashes is None else hashes)
        if len(fresh):
            self._file.write(gather_spans(data, starts[fresh], ends[fresh]).tobytes())
            self._lengths.append(ends[fresh] - starts[fresh])
        return numbers

    def close(self) -> Indices:
        """Close the file and return the start of each text in it, and the end of the last one."""
        self._file.close()
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        return np.cumsum(lengths)
