"""Reads the fields of many protocol buffer messages at once, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.sources.protobuf.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, read_varint

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

# Fewer messages are walked one by one: a round over columns costs as much as some dozens of fields.
_FEW = 24
_FIXED = {FIXED64: 8, FIXED32: 4}


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of many messages, ordered by message and then by position.

    For a varint, `start` is its value as a signed 64-bit integer; else `start` is the position of the first byte of the
    content and `end` the position after the last one.
    """

    owner: Places
    number: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    start: Places
    end: Places
    broken: Places
    """The messages that end in the middle of a field or are damaged; their fields up to there are included."""

    def __len__(self) -> int:
        return len(self.owner)

    def of(self, number: int, kind: int = BYTES) -> Fields:
        """Return the fields of one number and wire type."""
        return self.where((self.number == number) & (self.kind == kind))

    def where(self, chosen: Marks) -> Fields:
        """Return the chosen fields."""
        # Indexing five columns by position is faster than by mask.
        places = np.flatnonzero(chosen)
        return Fields(
            self.owner[places],
            self.number[places],
            self.kind[places],
            self.start[places],
            self.end[places],
            self.broken,
        )


def scan(data: Bytes, starts: Places, ends: Places) -> Fields:
    """Read the fields of all messages `data[starts[i]:ends[i]]`; nothing outside the messages is read."""
    position = starts.astype(np.int64, copy=True)
    ends = np.minimum(ends, len(data))
    found = _FieldCollector(len(starts))
    active = np.flatnonzero(position < ends)
    while len(active) > _FEW:
        (tag, start, end, after), bad = _next_fields(data, position[active], ends[active])
        if bad.any():
            found.broken.append(active[bad])
            active, tag, start, end, after = (column[~bad] for column in (active, tag, start, end, after))
        found.add(active, tag >> 3, tag & 7, start, end)
        position[active] = after
        active = active[after < ends[active]]
    for message in active.tolist():
        columns, is_broken = _walk(data, message, int(position[message]), int(ends[message]))
        found.add_message(*columns)
        if is_broken:
            found.broken.append(np.array([message]))
    return found.build()


class _FieldCollector:
    """Collects fields: in each round one of each message, at the end all of single messages."""

    def __init__(self, messages: int) -> None:
        self._count = np.zeros(messages, np.int64)
        self._rounds: list[tuple[Places, ...]] = []
        self.broken: list[Places] = []

    def add(self, owner: Places, *columns: Places) -> None:
        """Add one field of each of some messages."""
        self._rounds.append((owner, self._count[owner], *columns))
        self._count[owner] += 1

    def add_message(self, owner: Places, *columns: Places) -> None:
        """Add the remaining fields of one message."""
        if len(owner):
            place = self._count[owner[0]] + np.arange(len(owner))
            self._rounds.append((owner, place, *columns))
            self._count[owner[0]] += len(owner)

    def build(self) -> Fields:
        """Return all fields, ordered by message and position."""
        first = np.cumsum(self._count) - self._count
        total = int(self._count.sum())
        number, kind = np.empty(total, np.int32), np.empty(total, np.int8)
        start, end = np.empty(total, np.int64), np.empty(total, np.int64)
        for owner, place, *columns in self._rounds:
            at = first[owner] + place
            number[at], kind[at], start[at], end[at] = columns
        broken = np.unique(np.concatenate(self.broken)) if self.broken else np.zeros(0, np.int64)
        return Fields(np.repeat(np.arange(len(first)), self._count), number, kind, start, end, broken)


def read_varints(data: Bytes, position: Places, ends: Places) -> tuple[Places, Places, Marks]:
    """Read an unsigned integer at each position; return values, positions after them, and which are unreadable."""
    inside = position < ends
    byte = data[np.where(inside, position, 0)] if len(data) else np.zeros(len(position), np.uint8)
    value = (byte & 0x7F).astype(np.uint64)
    after = position + 1
    more = inside & (byte >= 0x80)
    bad = ~inside
    shift = 7
    while more.any():
        rows = np.flatnonzero(more)
        at = after[rows]
        within = (at < ends[rows]) & (shift < 64)
        bad[rows[~within]] = True
        rows, at = rows[within], at[within]
        byte = data[at]
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[rows] = at + 1
        more[:] = False
        more[rows] = byte >= 0x80
        shift += 7
    return value.view(np.int64), after, bad


_Row = tuple[Places, Places, Places, Places]


def _next_fields(data: Bytes, position: Places, ends: Places) -> tuple[_Row, Marks]:
    """Return the field at each position (tag, start, end and the position after it) and which are damaged."""
    tag, at, bad = read_varints(data, position, ends)
    kind = tag & 7
    # A value or a length follows the tag; fixed-size fields have neither, and reading one does no harm.
    number, behind, unread = read_varints(data, at, ends)
    is_number, is_bytes = kind == VARINT, kind == BYTES
    fixed = np.where(kind == FIXED64, 8, np.where(kind == FIXED32, 4, 0))
    start = np.where(is_number, number, np.where(is_bytes, behind, at))
    end = np.where(is_number, behind, np.where(is_bytes, behind + number, at + fixed))
    after = end
    bad |= unread & (is_number | is_bytes)
    bad |= ~(is_number | is_bytes) & (fixed == 0)
    # A length of 2**63 and more is negative here.
    bad |= is_bytes & ((number < 0) | (number > ends - behind))
    bad |= after > ends
    bad |= (tag >> 3 <= 0) | (tag >> 3 > 0x1FFFFFFF)
    return (tag, start, end, after), bad


def _walk(data: Bytes, message: int, position: int, end: int) -> tuple[tuple[Places, ...], bool]:
    """Return the fields of one message, and whether it is damaged."""
    # Copying the message would copy the weights in it; only tags and lengths are read.
    view = data.data
    rows: list[tuple[int, int, int, int]] = []
    is_broken = False
    try:
        while position < end:
            tag, position = read_varint(view, position)
            number, kind = tag >> 3, tag & 7
            if not 0 < number <= 0x1FFFFFFF:
                raise WireError("no field has this number")
            if kind == VARINT:
                value, behind = read_varint(view, position)
                start = value - (1 << 64) if value >> 63 else value
            elif kind == BYTES:
                length, start = read_varint(view, position)
                behind = start + length
            elif kind in _FIXED:
                start, behind = position, position + _FIXED[kind]
            else:
                raise WireError("unknown wire type")
            if behind > end:
                raise WireError("the field ends behind its message")
            rows.append((number, kind, start, behind))
            position = behind
    except WireError:
        is_broken = True
    columns = np.array(rows, np.int64).reshape(-1, 4)
    owner = np.full(len(columns), message, np.int64)
    return (owner, *columns.T), is_broken
