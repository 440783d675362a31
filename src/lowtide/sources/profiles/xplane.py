"""The memory events, marks and kernels of a profile (`.xplane.pb`), read without TensorFlow.

TensorFlow's profiler writes a MemoryAllocation or MemoryDeallocation for each call of a BFC allocator, with the
allocator's state after it, and an event "node:Op" for each kernel, with its duration. lowtide's recorder adds marks
that separate the steps, and a span around each op that runs eagerly. A profile is an XSpace of planes (devices), lines
(threads) and events; an event refers to its name and to the names of its values (stats) by numbers that each plane
defines.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.program.dtypes import DTYPES
from lowtide.sources.protobuf.wire import WireError, read_fields, read_varint, signed

MARK = "lowtide_mark"
EAGER_OP = "lowtide_op"
_ALLOCATION, _DEALLOCATION, _MARK, _EAGER_OP = range(4)
_EVENT_NAMES = {
    b"MemoryAllocation": _ALLOCATION,
    b"MemoryDeallocation": _DEALLOCATION,
    MARK.encode(): _MARK,
    EAGER_OP.encode(): _EAGER_OP,
}
# The name of a node and its op. Names of C++ functions have two colons, and other events have blanks.
_KERNEL = re.compile(rb"([^\s:]+):[A-Za-z_]\w*")

# The largest distance of an event from its position by time. The time is taken while the allocator is locked,
# so only small differences between the clocks of two cores can swap events.
_LONGEST_SWAP = 64

StatValue = int | float | str
Stats = dict[str, StatValue]


@dataclass(frozen=True, slots=True)
class AllocationRecord:
    """Every recorded allocation and free, in the order they happened; one row each."""

    time_ps: NDArray[np.int64]  # since the profile began
    is_allocation: NDArray[np.bool_]
    thread: NDArray[np.int64]
    address: NDArray[np.int64]
    requested_bytes: NDArray[np.int64]
    allocated_bytes: NDArray[np.int64]
    bytes_in_use: NDArray[np.int64]  # after the event
    fragmentation: NDArray[np.float64]  # after the event, six digits
    allocator: list[str]
    operation: list[str | None]  # of allocations: the node that asked; eager helpers have none
    region_type: list[str | None]  # "output", "temp", "persistent", ...
    dtype: list[str | None]
    shape: list[tuple[int, ...] | None]

    def __len__(self) -> int:
        return len(self.time_ps)

    def take(self, rows: Sequence[int] | NDArray[np.integer]) -> AllocationRecord:
        """Return the given rows, in the given order."""
        index = np.asarray(rows, np.int64)
        columns: list[Any] = []
        for each in fields(self):
            column = getattr(self, each.name)
            if isinstance(column, np.ndarray):
                columns.append(column[index])
            else:
                columns.append([column[row] for row in index.tolist()])
        return AllocationRecord(*columns)

    def breaks(self) -> list[int]:
        """Return the rows whose bytes in use do not follow from the previous row of the same allocator.

        A complete record has none; events are lost if the profiler's buffers overflow.
        """
        before: dict[str, int] = {}
        broken = []
        rows = zip(self.allocator, _changes(self), self.bytes_in_use.tolist(), strict=True)
        for row, (allocator, change, in_use) in enumerate(rows):
            if before.get(allocator, in_use - change) != in_use - change:
                broken.append(row)
            before[allocator] = in_use
        return broken


@dataclass(frozen=True)
class Mark:
    """A moment of the profile that the recorder marked with a number."""

    time_ps: int
    number: int


@dataclass(frozen=True, slots=True)
class EagerSpan:
    """The time in which an op ran eagerly, with the number that the recorder gave to ops like it."""

    thread: int
    begin_ps: int
    end_ps: int
    number: int


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """Every recorded kernel; one row each, in no order."""

    names: list[str]  # of nodes, without duplicates
    name: NDArray[np.int64]  # index into `names`
    time_ps: NDArray[np.int64]  # start, since the profile began
    duration_ps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.name)

    @staticmethod
    def of(rows: Sequence[tuple[str, int, int]]) -> KernelRecord:
        """Build the record from the name, start and duration of each kernel."""
        names: dict[str, int] = {}
        table = np.array([(names.setdefault(row[0], len(names)), *row[1:]) for row in rows], np.int64)
        return KernelRecord(list(names), *table.reshape(-1, 3).T)


@dataclass(frozen=True)
class Profile:
    """The allocations, the marks in the order of time, the kernels and the spans of eager ops of a profile."""

    allocations: AllocationRecord
    marks: tuple[Mark, ...]
    kernels: KernelRecord = field(default_factory=lambda: KernelRecord.of(()))
    spans: tuple[EagerSpan, ...] = ()


def read_profile(path: str | Path) -> Profile:
    """Read the memory events, the marks and the kernels of a profile."""
    return parse_profile(Path(path).read_bytes())


def parse_profile(data: bytes) -> Profile:
    """Read the memory events, the marks, the kernels and the spans of a serialized XSpace."""
    rows: list[tuple[Any, ...]] = []
    marks: list[Mark] = []
    spans: list[EagerSpan] = []
    kernels: list[tuple[str, int, int]] = []
    for number, value in read_fields(data):
        if number == 1:
            for row in _plane_rows(_expect_bytes(value), kernels):
                if isinstance(row, Mark):
                    marks.append(row)
                elif isinstance(row, EagerSpan):
                    spans.append(row)
                else:
                    rows.append(row)
    rows.sort(key=lambda row: row[0])
    marks.sort(key=lambda mark: mark.time_ps)
    record = _columns(rows)
    order = _order_by_bytes_in_use(record)
    ordered = record if order is None else record.take(order)
    return Profile(ordered, tuple(marks), KernelRecord.of(kernels), tuple(spans))


def _plane_rows(plane: bytes, kernels: list[tuple[str, int, int]]) -> Iterator[tuple[Any, ...] | Mark | EagerSpan]:
    lines: list[bytes] = []
    stat_names: dict[int, str] = {}
    kinds: dict[int, int] = {}
    nodes: dict[int, str] = {}
    for number, value in read_fields(plane):
        if number == 3:
            lines.append(_expect_bytes(value))
        elif number == 4:
            identifier, name = _metadata(_expect_bytes(value))
            if name in _EVENT_NAMES:
                kinds[identifier] = _EVENT_NAMES[name]
            elif (kernel := _KERNEL.fullmatch(name)) is not None:
                nodes[identifier] = kernel[1].decode("utf-8", "replace")
        elif number == 5:
            identifier, name = _metadata(_expect_bytes(value))
            stat_names[identifier] = name.decode("utf-8", "replace")
    if kinds or nodes:
        read_stat = _stat_reader(stat_names)
        for line in lines:
            yield from _line_rows(line, kinds, read_stat, nodes, kernels)


def _metadata(entry: bytes) -> tuple[int, bytes]:
    """Return the number and name in an entry of a plane's map of event or stat metadata."""
    identifier, name = 0, b""
    for number, value in read_fields(entry):
        if number == 1 and isinstance(value, int):
            identifier = value
        elif number == 2:
            for inner_number, inner in read_fields(_expect_bytes(value)):
                if inner_number == 2:
                    name = _expect_bytes(inner)
    return identifier, name


def _line_rows(
    line: bytes,
    kinds: dict[int, int],
    read_stat: Callable[[bytes], tuple[str, StatValue]],
    nodes: dict[int, str],
    kernels: list[tuple[str, int, int]],
) -> Iterator[tuple[Any, ...] | Mark | EagerSpan]:
    thread = start_ps = 0
    events: list[bytes] = []
    for number, value in read_fields(line):
        if number == 4:
            events.append(_expect_bytes(value))
        elif number == 1 and isinstance(value, int):
            thread = signed(value)
        elif number == 3 and isinstance(value, int):
            start_ps = signed(value) * 1000
    for event in events:
        # Events about neither memory nor kernels are skipped without reading them: fields are written in order, so
        # the number comes first.
        if event[:1] == b"\x08" and (known := read_varint(event, 1)[0]) not in kinds:
            if known in nodes:
                moments = dict(read_fields(event))
                kernels.append((nodes[known], start_ps + int(moments.get(2, 0)), int(moments.get(3, 0))))
            continue
        identifier = offset_ps = duration_ps = 0
        stats: Stats = {}
        for number, value in read_fields(event):
            if number == 4:
                name, stat = read_stat(_expect_bytes(value))
                stats[name] = stat
            elif number == 1 and isinstance(value, int):
                identifier = value
            elif number == 2 and isinstance(value, int):
                offset_ps = signed(value)
            elif number == 3 and isinstance(value, int):
                duration_ps = signed(value)
        kind = kinds.get(identifier)
        if kind == _MARK and isinstance(stats.get("at"), int):
            yield Mark(start_ps + offset_ps, int(stats["at"]))
        elif kind == _EAGER_OP and isinstance(stats.get("at"), int):
            begin_ps = start_ps + offset_ps
            yield EagerSpan(thread, begin_ps, begin_ps + duration_ps, int(stats["at"]))
        # Other allocators write events of the same name without the state of the allocator.
        elif kind is not None and "bytes_allocated" in stats and "addr" in stats:
            yield _row(start_ps + offset_ps, kind == _ALLOCATION, thread, stats)


def _stat_reader(names: dict[int, str]) -> Callable[[bytes], tuple[str, StatValue]]:
    known: dict[bytes, tuple[str, StatValue]] = {}

    def read(data: bytes) -> tuple[str, StatValue]:
        # Operations, types and shapes are repeated byte for byte.
        found = known.get(data)
        if found is None:
            found = known[data] = _stat(data, names)
        return found

    return read


def _stat(data: bytes, names: dict[int, str]) -> tuple[str, StatValue]:
    name = ""
    result: StatValue = 0
    for number, value in read_fields(data):
        if isinstance(value, int):
            if number == 1:
                name = names.get(value, "")
            elif number == 7:
                result = names.get(value, "")
            else:
                result = signed(value) if number == 4 else value
        elif number == 2:
            result = float(struct.unpack("<d", value)[0])
        else:
            result = value.decode("utf-8", "replace")
    return name, result


def _row(time_ps: int, is_allocation: bool, thread: int, stats: Stats) -> tuple[Any, ...]:
    get = stats.get
    dtype = get("data_type")
    known_type = DTYPES.get(dtype) if isinstance(dtype, int) else None
    return (
        time_ps,
        is_allocation,
        thread,
        get("addr", 0),
        get("requested_bytes", 0),
        get("allocation_bytes", 0),
        get("bytes_allocated", 0),
        # The profiler turns "0" into an integer and "nan" (nothing is free) into text.
        float(get("fragmentation", 0.0)),
        get("allocator_name", ""),
        get("tf_op") or None,
        get("region_type") or None,
        known_type[0] if known_type else None,
        _shape(get("shape")),
    )


def _shape(text: StatValue | None) -> tuple[int, ...] | None:
    if not isinstance(text, str) or not (text.startswith("[") and text.endswith("]")):
        return None
    sizes = text[1:-1]
    try:
        return tuple(int(size) for size in sizes.split(",")) if sizes else ()
    except ValueError:
        return None


def _columns(rows: list[tuple[Any, ...]]) -> AllocationRecord:
    # The order of a row is the order of the record's fields.
    types = [np.int64, np.bool_, *[np.int64] * 5, np.float64]
    lists = [list(column) for column in zip(*rows, strict=True)]
    if not rows:
        lists = [[] for _ in fields(AllocationRecord)]
    columns: list[Any] = [np.array(column, kind) for column, kind in zip(lists, types, strict=False)]
    return AllocationRecord(*columns, *lists[len(types) :])


def _changes(record: AllocationRecord) -> list[int]:
    sign = np.where(record.is_allocation, 1, -1)
    changes: list[int] = (record.allocated_bytes * sign).tolist()
    return changes


def _order_by_bytes_in_use(record: AllocationRecord) -> list[int] | None:
    """Repair the order by time with the chain of bytes in use; None if there is nothing to do.

    An event that does not continue the chain is deferred if one of another thread, a few rows later, does. If none
    does, events are missing, and the order by time is kept.
    """
    if not record.breaks():
        return None
    before_event = (record.bytes_in_use - np.array(_changes(record), np.int64)).tolist()
    in_use: list[int] = record.bytes_in_use.tolist()
    thread: list[int] = record.thread.tolist()
    waiting = list(range(len(record) - 1, -1, -1))
    state: dict[str, int] = {}
    order: list[int] = []
    while waiting:
        position = -1
        expected = state.get(record.allocator[waiting[-1]])
        if expected is not None and before_event[waiting[-1]] != expected:
            position = _continuing(waiting, record.allocator, thread, before_event, expected)
        row = waiting.pop(position)
        state[record.allocator[row]] = in_use[row]
        order.append(row)
    return order


def _continuing(
    waiting: list[int],
    allocator: list[str],
    thread: list[int],
    before_event: list[int],
    expected: int,
) -> int:
    """Return the index from the end of the first waiting row that continues the chain; else -1."""
    first = waiting[-1]
    passed = {thread[first]}
    for back in range(2, min(len(waiting), _LONGEST_SWAP) + 1):
        row = waiting[-back]
        if allocator[row] != allocator[first] or thread[row] in passed:
            # Events of one thread are in order among themselves.
            passed.add(thread[row])
        elif before_event[row] == expected:
            return -back
        else:
            passed.add(thread[row])
    return -1


def _expect_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise WireError("found a number instead of a message: this is not a profile (.xplane.pb)")
    return value
