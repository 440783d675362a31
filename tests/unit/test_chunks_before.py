"""The chunks that existed before a window opened, from the events of the window and the addresses that Python knew."""

import numpy as np

from lowtide.run.chunks import follow
from lowtide.run.record import Call, Window
from lowtide.sources.profiles.xplane import AllocationRecord, Mark, Profile
from lowtide.tide.owner import Owner

CALL = Call(1, 1, "step")


def events(*rows: tuple[bool, int, int, int]) -> AllocationRecord:
    """Return a record of (is it an allocation, address, bytes, bytes in use after it), one event each 10 ps."""
    count = len(rows)
    is_allocation, address, size, in_use = (np.array(column) for column in zip(*rows, strict=True))
    zeros = np.zeros(count, np.int64)
    return AllocationRecord(
        time_ps=np.arange(1, count + 1) * 10,
        is_allocation=is_allocation,
        thread=zeros,
        address=address,
        requested_bytes=size,
        allocated_bytes=size,
        bytes_in_use=in_use,
        fragmentation=np.zeros(count),
        allocator=["cpu"] * count,
        operation=["MatMul"] * count,
        region_type=["output"] * count,
        dtype=["float32"] * count,
        shape=[None] * count,
    )


def place(name: str, address: int, size: int) -> Owner:
    return Owner(
        name=name, layer=None, kind="weights", dtype="float32", shape=(size // 4,), bytes=size, address=address
    )


def alive_before(in_use: int, *places: Owner) -> dict[str | None, int]:
    """Return the owners and their bytes at the start of the window, with the given bytes in use."""
    record = events((True, 0x2000, 256, in_use + 256), (False, 0x2000, 256, in_use))
    profile = Profile(record, (Mark(1, CALL.begin_mark), Mark(100, CALL.end_mark)))
    (stretch,) = follow([Window("", (CALL,), {CALL.begin_mark: places})], [profile], "cpu")
    before = [chunk for chunk in stretch.chunks if chunk.born is None]
    return {None if chunk.owner is None else chunk.owner.name: chunk.allocated for chunk in before}


def test_variables_are_there_and_the_rest_is_not_known():
    held = alive_before(2048, place("kernel", 0x1000, 1024), place("bias", 0x1800, 40))
    assert held == {"kernel": 1024, "bias": 256, None: 768}


def test_a_variable_outside_of_the_allocator_is_not_counted():
    # More than the allocator has given out: the array that lies far away is not its own.
    held = alive_before(
        1280, place("loaded", 0x90000000, 1024), place("kernel", 0x1000, 1024), place("bias", 0x1800, 40)
    )
    assert held == {"kernel": 1024, "bias": 256}


def test_two_names_for_one_address_count_once():
    held = alive_before(1024, place("kernel", 0x1000, 1024), place("alias", 0x1000, 1024))
    assert list(held.values()) == [1024]


def test_two_marks_without_an_event_between_them():
    inner, kernel = Call(2, 1, "inner"), place("kernel", 0x1000, 1024)
    record = events((True, 0x2000, 256, 1280), (False, 0x2000, 256, 1024))
    profile = Profile(record, (Mark(1, CALL.begin_mark), Mark(2, inner.begin_mark)))
    places = {CALL.begin_mark: (kernel,), inner.begin_mark: (kernel, place("argument 0", 0x1000, 1024))}
    (stretch,) = follow([Window("", (CALL, inner), places)], [profile], "cpu")
    assert [chunk.allocated for chunk in stretch.chunks if chunk.born is None] == [1024]


def test_a_variable_with_an_address_is_counted():
    held = alive_before(2048, place("table", None, 1000), place("kernel", 0x1000, 768))
    assert held == {"kernel": 768, "table": 1024, None: 256}


def test_a_variable_with_an_address_lasts_and_has_its_size():
    first = events((True, 0x1000, 1024, 1024), (True, 0x4000, 512, 1536))
    second = events((True, 0x2000, 256, 1792), (False, 0x2000, 256, 1536))
    later = Call(2, 2, "step")
    windows = [
        Window("", (CALL,), {}),
        Window("", (later,), {later.begin_mark: (place("table", None, 1024),)}),
    ]
    profiles = [Profile(first, ()), Profile(second, (Mark(1, later.begin_mark),))]
    stretch = follow(windows, profiles, "cpu")[1]
    before = [chunk for chunk in stretch.chunks if chunk.born is None]
    assert [(chunk.address, chunk.owner and chunk.owner.name) for chunk in before] == [
        (0x1000, "table"),
        (0x4000, None),
    ]
