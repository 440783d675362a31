"""The byte spans of all nodes of a GraphDef and of its function library, found without parsing the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.arrays import Ids, Indices
from lowtide.sources.protobuf.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, read_varint

# Field numbers of GraphDef, FunctionDefLibrary, FunctionDef, OpDef and NodeDef.
GRAPH_NODE, GRAPH_LIBRARY = 1, 2
LIBRARY_FUNCTION = 1
FUNCTION_SIGNATURE, FUNCTION_NODE, FUNCTION_RETURN, FUNCTION_CONTROL_RETURN = 1, 3, 4, 6
SIGNATURE_NAME, SIGNATURE_INPUT = 1, 2
NODE_NAME, NODE_OP, NODE_INPUT, NODE_DEVICE, NODE_ATTRIBUTE = 1, 2, 3, 4, 5

# The message that a row of the index is made from.
NODE, ARGUMENT, RETURNED, CONTROL_RETURNED = range(4)

# Bytes that are parsed at once: enough for vectorization to pay, few enough to keep memory low. Larger graphs need more
# memory later in any case, so their batches may be larger.
LEAST_BATCH_BYTES, MOST_BATCH_BYTES = 1 << 22, 1 << 24
_BATCHES = 256
# The size of a small node.
_NODE_BYTES = 128
_PAGE = 1 << 19
# Tag and length are two varints of at most ten bytes.
_MOST_HEADER_BYTES = 20
# The tag of most fields: number 1, length-delimited.
_COMMON = 1 << 3 | BYTES


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """Rows of the index: the span of each in the file, its part of the graph, and the message that it is made from."""

    start: Indices
    end: Indices
    part: Ids
    made_from: npt.NDArray[np.uint8]


@dataclass
class GraphScan:
    """A scan over one GraphDef; `parts` and `notes` are complete when `batches` has ended."""

    data: npt.NDArray[np.uint8]
    start: int
    end: int
    parts: list[str] = field(default_factory=lambda: [""])
    """The name of each part: empty for the main graph, then the names of the functions."""
    position: int = 0
    notes: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[SpanBatch]:
        """Yield all rows in the order of the file, some thousands at a time."""
        rows = _BatchBuilder(batch_bytes(self.end - self.start))
        for headers in self._fields(self.start, min(self.end, len(self.data)), "the graph"):
            self.position = headers.last
            rows.add(headers, GRAPH_NODE, 0, NODE)
            for start, end in headers.of(GRAPH_LIBRARY).tolist():
                for functions in self._fields(start, end, "the function library"):
                    for first, last in functions.of(LIBRARY_FUNCTION).tolist():
                        self._function(first, last, rows)
                        if rows.is_full:
                            yield rows.take()
            if rows.is_full:
                yield rows.take()
        # At least one batch, even if it is empty, so that every column is created.
        yield rows.take()

    def _function(self, start: int, end: int, rows: _BatchBuilder) -> None:
        part = len(self.parts)
        self.parts.append(f"function {part}")
        for headers in self._fields(start, end, "a function"):
            for first, last in headers.of(FUNCTION_SIGNATURE).tolist():
                for inner in self._fields(first, last, "a signature"):
                    for low, high in inner.of(SIGNATURE_NAME).tolist():
                        self.parts[part] = bytes(self.data[low:high]).decode(errors="replace")
                    rows.add(inner, SIGNATURE_INPUT, part, ARGUMENT)
            rows.add(headers, FUNCTION_NODE, part, NODE)
            rows.add(headers, FUNCTION_RETURN, part, RETURNED)
            rows.add(headers, FUNCTION_CONTROL_RETURN, part, CONTROL_RETURNED)

    def _fields(self, start: int, end: int, what: str) -> Iterator[FieldHeaders]:
        """Yield the length-delimited fields of a message; add a note if it is damaged."""
        position = start
        while position < end:
            page = self.data[position : min(position + _PAGE, end + _MOST_HEADER_BYTES)].tobytes()
            headers, position = read_field_headers(page, position, end)
            yield headers
            if headers.problem is not None:
                self.notes.append(f"{what} is damaged or cut: {headers.problem}")
                return


@dataclass(slots=True)
class FieldHeaders:
    """Length-delimited fields: start and end of the content of each, relative to `low`.

    Most fields have number 1 (nodes and functions); `others` has the number, start and end of the rest.
    """

    low: int
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    others: list[tuple[int, int, int]] = field(default_factory=list)
    problem: str | None = None

    def of(self, number: int) -> Indices:
        """Return start and end of the fields of one number, as rows."""
        rows = [(start, end) for each, start, end in self.others if each == number]
        if number == _COMMON >> 3:
            # Long fields of number 1 are in `others`.
            rows = sorted([*zip(self.start, self.end, strict=True), *rows]) if rows else rows
            if not rows:
                return np.array([self.start, self.end], np.int64).T + self.low
        return np.array(rows, np.int64).reshape(-1, 2) + self.low

    @property
    def last(self) -> int:
        """The end of the last field."""
        return self.low + max([*self.end[-1:], *(end for _, _, end in self.others[-1:])], default=0)


def batch_bytes(size: int) -> int:
    """Return how many bytes of a graph of this size are parsed at once."""
    return min(max(size // _BATCHES, LEAST_BATCH_BYTES), MOST_BATCH_BYTES)


class _BatchBuilder:
    """A batch that is being filled."""

    def __init__(self, most_bytes: int) -> None:
        self._batches: list[SpanBatch] = []
        self._most_bytes = most_bytes
        self.count = self.bytes = 0

    def add(self, headers: FieldHeaders, number: int, part: int, made_from: int) -> None:
        """Add the fields of one number."""
        places = headers.of(number)
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
        """Whether the batch is large enough to be parsed."""
        return self.count * _NODE_BYTES >= self._most_bytes or self.bytes >= self._most_bytes

    def take(self) -> SpanBatch:
        """Return the rows added since the last call."""
        nothing = np.zeros(0, np.int64)
        batches = self._batches or [SpanBatch(nothing, nothing, nothing.astype(np.uint32), nothing.astype(np.uint8))]
        columns = zip(*((each.start, each.end, each.part, each.made_from) for each in batches), strict=True)
        self._batches, self.count, self.bytes = [], 0, 0
        return SpanBatch(*(np.concatenate(column) for column in columns))


def read_field_headers(page: bytes, low: int, end: int) -> tuple[FieldHeaders, int]:
    """Read field headers (tag and length) from a page that starts at `low`; return them and where to continue.

    Contents are skipped. Most headers are one byte of tag and one or two of length; this loop dominates the scan time.
    """
    headers = FieldHeaders(low=low)
    add_start, add_end = headers.start.append, headers.end.append
    at, stop = 0, end - low
    # A header that may cross the end of the page is read with the next page; the last page is complete.
    safe = min(len(page) - _MOST_HEADER_BYTES if low + len(page) < end else stop, stop - 1)
    try:
        while at <= safe:
            length = page[at + 1]
            if page[at] != _COMMON or (length >= 0x80 and page[at + 2] >= 0x80):
                tag, length, first = _read_header(page, at)
                at = first + length
                if tag & 7 == BYTES and at <= stop:
                    headers.others.append((tag >> 3, first, at))
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
        headers.problem = str(error) if isinstance(error, WireError) else "it ends in the middle of a field"
        while headers.end and headers.end[-1] > stop:
            headers.end.pop()
            headers.start.pop()
    return headers, low + at


def _read_header(page: bytes, at: int) -> tuple[int, int, int]:
    """Return tag, content length and content start of any field."""
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
