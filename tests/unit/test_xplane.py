"""Reading a profile's memory events: from bytes written here, field by field."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.sources.profiles.xplane import EAGER_OP, MARK, EagerSpan, Mark, parse_profile, read_profile
from lowtide.sources.protobuf.wire import WireError, read_fields, read_varint, signed
from tests.unit.protos import message, number, varint

ALLOCATION, DEALLOCATION, OTHER, MARKED, SPANNED = 1, 2, 300, 301, 302


class PlaneWriter:
    """Writes a plane as the profiler does: lines first, then the names that they refer to."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.kinds = {ALLOCATION: "MemoryAllocation", DEALLOCATION: "MemoryDeallocation", OTHER: "Op", MARKED: MARK}
        self.kinds[SPANNED] = EAGER_OP
        self.lines = b""

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names) + 1)

    def stat(self, name: str, value: float | str) -> bytes:
        head = number(1, self.name(name))
        if isinstance(value, str):
            return head + number(7, self.name(value))
        if isinstance(value, float):
            return head + varint(2 << 3 | 1) + struct.pack("<d", value)
        return head + number(4, value)

    def event(self, kind: int, time_ns: int, stats: dict[str, float | str], duration_ps: int = 0) -> bytes:
        content = number(1, kind) + number(2, time_ns * 1000) + number(3, duration_ps)
        return content + b"".join(message(4, self.stat(*stat)) for stat in stats.items())

    def line(self, thread: int, start_ns: int, events: Iterable[bytes]) -> None:
        content = number(1, thread) + message(2, "thread") + number(3, start_ns)
        self.lines += message(3, content + b"".join(message(4, event) for event in events))

    def space(self) -> bytes:
        content = number(1, 7) + message(2, "/host:CPU") + self.lines
        for field, names in (
            (4, self.kinds.items()),
            (5, [(identifier, name) for name, identifier in self.names.items()]),
        ):
            for identifier, name in names:
                metadata = number(1, identifier) + message(2, name)
                content += message(field, number(1, identifier) + message(2, metadata))
        return message(1, content) + message(4, "host")


def memory_stats(address: int, size: int, in_use: int) -> dict[str, float | str]:
    return {
        "allocator_name": "bfc",
        "bytes_allocated": in_use,
        "bytes_available": 10_000 - in_use,
        "fragmentation": 0.25,
        "peak_bytes_in_use": 4096,
        "requested_bytes": size - 1,
        "allocation_bytes": size,
        "addr": address,
    }


def test_one_allocation_and_its_free(tmp_path: Path) -> None:
    writer = PlaneWriter()
    labels: dict[str, float | str] = {
        "tf_op": "conv/Conv2D",
        "id": -5,
        "region_type": "output",
        "data_type": 1,
        "shape": "[8,3]",
    }
    free_stats = memory_stats(1 << 46, 512, 0) | {"id": 0, "data_type": 0, "fragmentation": 0}
    events = [
        writer.event(ALLOCATION, 5, memory_stats(1 << 46, 512, 512) | labels),
        writer.event(OTHER, 6, {"addr": 3}),
        writer.event(DEALLOCATION, 7, free_stats),
    ]
    writer.line(-99, 1000, events)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(writer.space())
    record = read_profile(path).allocations
    assert len(record) == 2
    assert record.time_ps.tolist() == [1_005_000, 1_007_000]
    assert record.is_allocation.tolist() == [True, False]
    assert record.thread.tolist() == [-99, -99]
    assert record.address.tolist() == [1 << 46, 1 << 46]
    assert record.requested_bytes.tolist() == [511, 511]
    assert record.allocated_bytes.tolist() == [512, 512]
    assert record.bytes_in_use.tolist() == [512, 0]
    assert record.fragmentation.tolist() == [0.25, 0.0]
    assert record.allocator == ["bfc", "bfc"]
    assert record.operation == ["conv/Conv2D", None]
    assert record.region_type == ["output", None]
    assert record.dtype == ["float32", None]
    assert record.shape == [(8, 3), None]
    assert record.breaks() == []


@pytest.mark.parametrize(("text", "shape"), [("[]", ()), ("[4]", (4,)), ("<unknown>", None)])
def test_shapes(text: str, shape: tuple[int, ...] | None) -> None:
    writer = PlaneWriter()
    event = writer.event(ALLOCATION, 1, memory_stats(256, 256, 256) | {"shape": text})
    writer.line(1, 0, [event])
    assert parse_profile(writer.space()).allocations.shape == [shape]


def test_events_without_the_state_of_the_allocator_are_left_out() -> None:
    writer = PlaneWriter()
    writer.line(1, 0, [writer.event(ALLOCATION, 1, {"requested_bytes": 8})])
    record = parse_profile(writer.space()).allocations
    assert len(record) == 0
    assert record.breaks() == []


def test_threads_are_merged_by_time() -> None:
    writer = PlaneWriter()
    writer.line(1, 0, [writer.event(ALLOCATION, 10, memory_stats(256, 256, 256))])
    # The other line starts later, so a smaller offset is a later time.
    writer.line(2, 100, [writer.event(ALLOCATION, 5, memory_stats(512, 512, 768))])
    assert parse_profile(writer.space()).allocations.thread.tolist() == [1, 2]


def test_swapped_events_of_two_threads_are_put_right() -> None:
    writer = PlaneWriter()
    first = writer.event(ALLOCATION, 10, memory_stats(256, 256, 256))
    second = writer.event(ALLOCATION, 30, memory_stats(512, 512, 768))
    third = writer.event(DEALLOCATION, 20, memory_stats(256, 256, 512))
    writer.line(1, 0, [first, third])
    writer.line(2, 0, [second])
    record = parse_profile(writer.space()).allocations
    assert record.bytes_in_use.tolist() == [256, 768, 512]
    assert record.time_ps.tolist() == [10_000, 30_000, 20_000]
    assert record.is_allocation.tolist() == [True, True, False]
    assert record.breaks() == []


def test_a_lost_event_is_a_break_and_keeps_the_order_by_time() -> None:
    writer = PlaneWriter()
    in_use_after = [256, 1024, 1280]
    events = [
        writer.event(ALLOCATION, time, memory_stats(time * 256, 256, in_use))
        for time, in_use in enumerate(in_use_after, start=1)
    ]
    writer.line(1, 0, events)
    record = parse_profile(writer.space()).allocations
    assert record.bytes_in_use.tolist() == in_use_after
    assert record.breaks() == [1]


def test_two_allocators_have_two_chains() -> None:
    writer = PlaneWriter()
    other = memory_stats(4096, 512, 5120) | {"allocator_name": "other"}
    events = [
        writer.event(ALLOCATION, 1, memory_stats(256, 256, 256)),
        writer.event(ALLOCATION, 2, other),
        writer.event(ALLOCATION, 3, memory_stats(512, 256, 512)),
    ]
    writer.line(1, 0, events)
    record = parse_profile(writer.space()).allocations
    assert record.allocator == ["bfc", "other", "bfc"]
    assert record.breaks() == []


def test_marks_of_all_threads_are_found_in_the_order_of_time(tmp_path: Path) -> None:
    writer = PlaneWriter()
    writer.line(
        1,
        1000,
        [
            writer.event(MARKED, 1, {"at": 2}),
            writer.event(ALLOCATION, 2, memory_stats(256, 256, 256)),
            writer.event(OTHER, 3, {"at": 7}),
            writer.event(MARKED, 9, {"at": 3}),
        ],
    )
    writer.line(2, 1005, [writer.event(MARKED, 0, {"at": 4})])
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(writer.space())
    profile = read_profile(path)
    assert profile.marks == (Mark(1_001_000, 2), Mark(1_005_000, 4), Mark(1_009_000, 3))
    assert profile.allocations.time_ps.tolist() == [1_002_000]


def test_spans_of_eager_ops_have_their_thread_and_both_ends() -> None:
    writer = PlaneWriter()
    writer.line(3, 1000, [writer.event(SPANNED, 1, {"at": 0}, 500), writer.event(SPANNED, 2, {"at": 6}, 700)])
    writer.line(4, 1000, [writer.event(SPANNED, 9, {}, 500)])
    spans = parse_profile(writer.space()).spans
    assert spans == (EagerSpan(3, 1_001_000, 1_001_500, 0), EagerSpan(3, 1_002_000, 1_002_700, 6))


def test_a_mark_without_a_number_is_none() -> None:
    writer = PlaneWriter()
    writer.line(1, 0, [writer.event(MARKED, 1, {}), writer.event(MARKED, 2, {"at": "here"})])
    profile = parse_profile(writer.space())
    assert profile.marks == ()
    assert len(profile.allocations) == 0


def test_kernels_are_recognised_by_their_names() -> None:
    writer = PlaneWriter()
    names = [
        "call/dense/MatMul:_MklMatMul",
        "add:AddV2",
        "ExecutorState::Process",
        "EagerLocalExecute: __inference_step_12",
        "Iterator::Root::Prefetch",
        "$train.py:12 step",
        "FunctionRun",
    ]
    writer.kinds |= dict(enumerate(names, start=1000))
    events = [writer.event(kind, 10 * (kind - 999), {"id": 3}, duration_ps=kind) for kind in writer.kinds if kind > 999]
    writer.line(1, 1000, [writer.event(1001, 5, {}, duration_ps=7), *events])
    writer.line(2, 2000, [writer.event(1001, 0, {}, duration_ps=9)])
    kernels = parse_profile(writer.space()).kernels
    rows = zip(kernels.name.tolist(), kernels.time_ps.tolist(), kernels.duration_ps.tolist(), strict=True)
    assert [(kernels.names[name], time, duration) for name, time, duration in rows] == [
        ("add", 1_005_000, 7),
        ("call/dense/MatMul", 1_010_000, 1000),
        ("add", 1_020_000, 1001),
        ("add", 2_000_000, 9),
    ]
    assert len(parse_profile(PlaneWriter().space()).kernels) == 0


def test_a_file_that_is_not_a_profile_is_refused() -> None:
    with pytest.raises(WireError, match="not a profile"):
        parse_profile(number(1, 5))
    with pytest.raises(WireError, match="end in the middle"):
        parse_profile(message(1, b"abcdef")[:-2])
    with pytest.raises(WireError, match="wire type"):
        parse_profile(bytes([1 << 3 | 3]))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_come_back(value: int) -> None:
    data = varint(value)
    unsigned, position = read_varint(data, 0)
    assert signed(unsigned) == value
    assert position == len(data)


@given(st.lists(st.tuples(st.integers(1, 1000), st.one_of(st.binary(), st.integers(0, 1 << 63)))))
def test_fields_come_back(fields: list[tuple[int, bytes | int]]) -> None:
    data = b"".join(
        number(field, value) if isinstance(value, int) else message(field, value) for field, value in fields
    )
    assert list(read_fields(data)) == fields


@pytest.mark.parametrize("data", [b"\x80", b"\x80" * 11])
def test_a_varint_without_an_end_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        read_varint(data, 0)
