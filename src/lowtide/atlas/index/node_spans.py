"""Where each node of a GraphDef lies: its nodes, and those of the functions in its library, without reading them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lowtide.sources.protobuf.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, read_varint

# GraphDef, FunctionDefLibrary, FunctionDef and OpDef, by field number.
GRAPH_NODE, GRAPH_LIBRARY = 1, 2
LIBRARY_FUNCTION = 1
FUNCTION_SIGNATURE, FUNCTION_NODE, FUNCTION_RETURN, FUNCTION_CONTROL_RETURN = 1, 3, 4, 6
SIGNATURE_NAME, SIGNATURE_INPUT = 1, 2

# What a row of the index is made from.
NODE, ARGUMENT, RETURNED, CONTROL_RETURNED = range(4)

# A batch is read at once: large enough for columns to pay, small enough to keep memory low. What a larger graph takes
# later leaves room for larger ones.
LEAST_BATCH_BYTES, MOST_BATCH_BYTES = 1 << 22, 1 << 24
_BATCHES = 256
# As many bytes as a small node takes.
_NODE_BYTES = 128
_PAGE = 1 << 19
# No tag and length are longer than two numbers of ten bytes.
_HEAD = 20
# The head of most fields: number 1, and bytes.
_COMMON = 1 << 3 | BYTES


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """Some rows of the index to be: where each lies in the file, in which part of the graph, and what it is."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    part: npt.NDArray[np.uint32]
    made_from: npt.NDArray[np.uint8]


@dataclass
class GraphScan:
    """The scan over one GraphDef; what it finds beside the nodes is here when it has ended."""

    data: npt.NDArray[np.uint8]
    start: int
    end: int
    parts: list[str] = field(default_factory=lambda: [""])
    """The main graph, and the name of each function."""
    position: int = 0
    notes: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[SpanBatch]:
        """Give all rows, in the order of the file, some thousands at a time."""
        rows = _BatchBuilder(batch_bytes(self.end - self.start))
        for heads in self._fields(self.start, min(self.end, len(self.data)), "the graph"):
            self.position = heads.last
            rows.add(heads, GRAPH_NODE, 0, NODE)
            for start, end in heads.of(GRAPH_LIBRARY).tolist():
                for functions in self._fields(start, end, "the function library"):
                    for first, last in functions.of(LIBRARY_FUNCTION).tolist():
                        self._function(first, last, rows)
                        if rows.is_full:
                            yield rows.take()
            if rows.is_full:
                yield rows.take()
        # One at least, though it be empty: every column is there.
        yield rows.take()

    def _function(self, start: int, end: int, rows: _BatchBuilder) -> None:
        part = len(self.parts)
        self.parts.append(f"function {part}")
        for heads in self._fields(start, end, "a function"):
            for first, last in heads.of(FUNCTION_SIGNATURE).tolist():
                for inner in self._fields(first, last, "a signature"):
                    for low, high in inner.of(SIGNATURE_NAME).tolist():
                        self.parts[part] = bytes(self.data[low:high]).decode(errors="replace")
                    rows.add(inner, SIGNATURE_INPUT, part, ARGUMENT)
            rows.add(heads, FUNCTION_NODE, part, NODE)
            rows.add(heads, FUNCTION_RETURN, part, RETURNED)
            rows.add(heads, FUNCTION_CONTROL_RETURN, part, CONTROL_RETURNED)

    def _fields(self, start: int, end: int, what: str) -> Iterator[FieldHeaders]:
        """The fields of a message that hold bytes; a note where the message is damaged."""
        position = start
        while position < end:
            page = self.data[position : min(position + _PAGE, end + _HEAD)].tobytes()
            heads, position = read_field_headers(page, position, end)
            yield heads
            if heads.problem is not None:
                self.notes.append(f"{what} is damaged or cut: {heads.problem}")
                return


@dataclass(slots=True)
class FieldHeaders:
    """Fields that hold bytes: where the content of each begins and ends, counted from `low`.

    Most are of number 1, which are nodes and functions; the others stand apart, with their number.
    """

    low: int
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    others: list[tuple[int, int, int]] = field(default_factory=list)
    problem: str | None = None

    def of(self, number: int) -> npt.NDArray[np.int64]:
        """Begin and end of the fields of one number, as rows."""
        rows = [(start, end) for each, start, end in self.others if each == number]
        if number == _COMMON >> 3:
            # Long fields of the common number stand among the others.
            rows = sorted([*zip(self.start, self.end, strict=True), *rows]) if rows else rows
            if not rows:
                return np.array([self.start, self.end], np.int64).T + self.low
        return np.array(rows, np.int64).reshape(-1, 2) + self.low

    @property
    def last(self) -> int:
        """Where the last of the fields ends."""
        return self.low + max([*self.end[-1:], *(end for _, _, end in self.others[-1:])], default=0)


def batch_bytes(size: int) -> int:
    """How many bytes of a graph of this size are read at once."""
    return min(max(size // _BATCHES, LEAST_BATCH_BYTES), MOST_BATCH_BYTES)


class _BatchBuilder:
    """A batch that is being filled."""

    def __init__(self, most_bytes: int) -> None:
        self._batches: list[SpanBatch] = []
        self._most_bytes = most_bytes
        self.count = self.bytes = 0

    def add(self, heads: FieldHeaders, number: int, part: int, made_from: int) -> None:
        """Add the fields of one number."""
        places = heads.of(number)
        if len(places):
            start, end = places.T
            count = len(start)
            self._batches.append(
                SpanBatch(start, end, np.full(count, part, np.uint32), np.full(count, made_from, np.uint8))
            )
            self.count += count
            self.bytes += int((end - start).sum())

    @property
    def is_full(self) -> bool:
        """Whether it is time to read what was added."""
        return self.count * _NODE_BYTES >= self._most_bytes or self.bytes >= self._most_bytes

    def take(self) -> SpanBatch:
        """What was added since the last time."""
        nothing = np.zeros(0, np.int64)
        batches = self._batches or [SpanBatch(nothing, nothing, nothing.astype(np.uint32), nothing.astype(np.uint8))]
        columns = zip(*((each.start, each.end, each.part, each.made_from) for each in batches), strict=True)
        self._batches, self.count, self.bytes = [], 0, 0
        return SpanBatch(*(np.concatenate(column) for column in columns))


def read_field_headers(page: bytes, low: int, end: int) -> tuple[FieldHeaders, int]:
    """Read heads of fields from a page that lies at `low`, as far as the page goes, and say where to go on.

    What lies between the heads is skipped, not read: most heads are one byte of tag and one or two of length, and this
    loop is most of the scan over a file.
    """
    heads = FieldHeaders(low=low)
    add_start, add_end = heads.start.append, heads.end.append
    at, stop = 0, end - low
    # A head that may reach behind the page is read with the next one; the last page has all that there is.
    safe = min(len(page) - _HEAD if low + len(page) < end else stop, stop - 1)
    try:
        while at <= safe:
            length = page[at + 1]
            if page[at] != _COMMON or (length >= 0x80 and page[at + 2] >= 0x80):
                tag, length, first = _head(page, at)
                at = first + length
                if tag & 7 == BYTES and at <= stop:
                    heads.others.append((tag >> 3, first, at))
                continue
            if length < 0x80:
                add_start(at + 2)
                at += 2 + length
            else:
                add_start(at + 3)
                at += length + (page[at + 2] << 7) - 0x7D
            add_end(at)
        if at > stop:
            raise WireError("it ends in the middle of a field")
    except (WireError, IndexError) as error:
        heads.problem = str(error) if isinstance(error, WireError) else "it ends in the middle of a field"
        while heads.end and heads.end[-1] > stop:
            heads.end.pop()
            heads.start.pop()
    return heads, low + at


def _head(page: bytes, at: int) -> tuple[int, int, int]:
    """Tag, length and place of the content of any field; what holds no bytes has the length that it takes."""
    tag, at = read_varint(page, at)
    kind = tag & 7
    if kind == BYTES:
        length, at = read_varint(page, at)
    elif kind == VARINT:
        _, at = read_varint(page, at)
        length = 0
    elif kind in (FIXED64, FIXED32):
        length = 8 if kind == FIXED64 else 4
    else:
        raise WireError(f"unknown wire type {kind}")
    return tag, length, at
