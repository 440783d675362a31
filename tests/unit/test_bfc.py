"""The BFC model: exact numbers on tiny streams, and what must hold for any stream."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.simulator.bfc import (
    BfcAllocator,
    Chunk,
    OutOfMemory,
    place_below,
    round_up,
)
from tests.unit.streams import place_above

KIB, MIB = 1 << 10, 1 << 20


def layout(allocator: BfcAllocator) -> list[tuple[int, bool]]:
    return [(chunk.size_bytes, chunk.in_use) for chunk in allocator.chunks()]


def test_sizes_are_rounded_to_256_bytes() -> None:
    assert [round_up(size) for size in (0, 1, 256, 257)] == [0, 256, 256, 512]
    allocator = BfcAllocator()
    addresses = [allocator.allocate(size) for size in (1, 256, 257)]
    assert [allocator.chunk_bytes(address) for address in addresses] == [256, 256, 512]
    assert allocator.bytes_in_use == 1024
    assert allocator.reserved_bytes == 2 * MIB


def test_an_empty_request_takes_nothing() -> None:
    allocator = BfcAllocator()
    assert allocator.allocate(0) is None
    allocator.free(None)
    assert allocator.bytes_in_use == allocator.reserved_bytes == 0


def test_impossible_calls_are_refused() -> None:
    allocator = BfcAllocator()
    with pytest.raises(ValueError, match="received -1"):
        allocator.allocate(-1)
    address = allocator.allocate(1)
    allocator.free(address)
    with pytest.raises(ValueError, match="no chunk is in use"):
        allocator.free(address)


def test_a_chunk_is_split_if_the_rest_is_as_large_as_the_request() -> None:
    allocator = BfcAllocator()
    half = allocator.allocate(MIB)
    assert layout(allocator) == [(MIB, True), (MIB, False)]
    allocator.free(half)
    assert layout(allocator) == [(2 * MIB, False)]
    more_than_half = allocator.allocate(MIB + 1)
    assert layout(allocator) == [(2 * MIB, True)]
    assert allocator.bytes_in_use == 2 * MIB
    allocator.free(more_than_half)


@pytest.mark.parametrize(("requested", "given"), [(400, 512), (385, 512), (384, 384), (300, 300)])
def test_a_chunk_is_split_if_the_rest_is_128_mib(requested: int, given: int) -> None:
    allocator = BfcAllocator()
    assert allocator.chunk_bytes(allocator.allocate(requested * MIB)) == given * MIB
    assert allocator.reserved_bytes == 512 * MIB


def test_the_smallest_chunk_that_fits_is_taken() -> None:
    allocator = BfcAllocator()
    sizes = [1024, 256, 768, 256, 512, 256]
    addresses = [allocator.allocate(size) for size in sizes]
    for position in (0, 2, 4):
        allocator.free(addresses[position])
    assert allocator.allocate(512) == addresses[4]
    assert allocator.allocate(512) == addresses[2]
    assert allocator.chunk_bytes(addresses[2]) == 768
    assert allocator.allocate(512) == addresses[0]
    assert allocator.chunk_bytes(addresses[0]) == 512


@pytest.mark.parametrize(("place", "first_region"), [(place_below, False), (place_above, True)])
def test_among_equal_chunks_the_lowest_address_is_taken(place, first_region: bool) -> None:
    allocator = BfcAllocator(place_region=place)
    first = allocator.allocate(2 * MIB)
    second = allocator.allocate(4 * MIB)
    allocator.free(second)
    addresses = [allocator.allocate(2 * MIB) for _ in range(2)]
    assert addresses == [second, second + 2 * MIB]
    for address in (first, *addresses):
        allocator.free(address)
    held = allocator.allocate(2 * MIB + 1)
    assert allocator.chunk_bytes(held) == 4 * MIB
    allocator.free(held)
    # Now one chunk of 2 MiB in either region, the other half of the second one in use.
    allocator = BfcAllocator(place_region=place)
    first = allocator.allocate(2 * MIB)
    lower, upper = allocator.allocate(2 * MIB), allocator.allocate(2 * MIB)
    assert upper == lower + 2 * MIB
    allocator.free(first)
    allocator.free(upper)
    assert allocator.allocate(2 * MIB) == (first if first_region else upper)


def test_free_neighbours_merge_on_both_sides() -> None:
    allocator = BfcAllocator()
    one, two, three, four = (allocator.allocate(512 * KIB) for _ in range(4))
    allocator.free(one)
    allocator.free(three)
    assert layout(allocator) == [
        (512 * KIB, False),
        (512 * KIB, True),
        (512 * KIB, False),
        (512 * KIB, True),
    ]
    assert allocator.largest_free_bytes() == 512 * KIB
    allocator.free(two)
    assert layout(allocator) == [(1536 * KIB, False), (512 * KIB, True)]
    assert allocator.largest_free_bytes() == 1536 * KIB
    allocator.free(four)
    assert layout(allocator) == [(2 * MIB, False)]


@pytest.mark.parametrize("place", [place_below, place_above])
def test_regions_do_not_merge(place) -> None:
    allocator = BfcAllocator(place_region=place)
    first, second = allocator.allocate(2 * MIB), allocator.allocate(4 * MIB)
    allocator.free(first)
    allocator.free(second)
    assert sorted(layout(allocator)) == [(2 * MIB, False), (4 * MIB, False)]
    assert allocator.largest_free_bytes() == 4 * MIB


def test_regions_double_and_a_raised_size_is_used_twice() -> None:
    allocator = BfcAllocator()
    for size in (2, 4, 20, 20, 64):
        allocator.allocate(size * MIB)
    # 20 MiB raise the 8 that were due to 32; that was the doubling, so 32 come again.
    assert [region.size_bytes // MIB for region in allocator.regions] == [2, 4, 32, 32, 64]


def test_the_limit_counts_regions_and_cuts_the_last() -> None:
    allocator = BfcAllocator(7 * MIB)
    held = [allocator.allocate(2 * MIB), allocator.allocate(4 * MIB)]
    allocator.allocate(MIB // 2)
    assert allocator.reserved_bytes == 7 * MIB
    allocator.free(held[0])
    allocator.free(held[1])
    with pytest.raises(OutOfMemory) as caught:
        allocator.allocate(4 * MIB + 1)
    error = caught.value
    assert error.requested_bytes == 4 * MIB + 256
    assert error.largest_free_bytes == 4 * MIB
    assert error.bytes_in_use == MIB // 2
    assert error.limit_bytes == error.reserved_bytes == 7 * MIB


def test_a_limit_below_the_first_region() -> None:
    allocator = BfcAllocator(1000)
    allocator.allocate(256)
    assert allocator.reserved_bytes == 768
    with pytest.raises(OutOfMemory):
        allocator.allocate(513)


def test_replay_gives_the_curve_and_the_chunks() -> None:
    allocator = BfcAllocator()
    replay = allocator.replay(np.array([300, 0, 2 * MIB]), np.array([0, 1, 2, ~1, ~0]))
    assert replay.bytes_in_use.tolist() == [512, 512, 512 + 4 * MIB - 2 * MIB, 2097664, 2097152]
    assert replay.allocated_bytes.tolist() == [512, 0, 2 * MIB]
    assert [address is None for address in replay.addresses] == [True, True, False]
    assert allocator.peak_bytes_in_use == 512 + 2 * MIB


def test_replay_continues_with_what_outlived_the_last_one() -> None:
    allocator = BfcAllocator()
    first = allocator.replay([1000, 500], [0, 1, ~1])
    second = allocator.replay([1000, 500], [1, ~0, 0, ~1], first.addresses)
    assert second.bytes_in_use.tolist() == [1536, 512, 1536, 1024]
    assert first.addresses[0] is not None
    assert second.addresses[0] is not None


def test_replay_names_the_event_that_fails() -> None:
    allocator = BfcAllocator(4 * MIB)
    with pytest.raises(OutOfMemory):
        allocator.replay([MIB, 5 * MIB], [0, ~0, 1])
    with pytest.raises(ValueError, match="event 1: buffer 0 is already allocated"):
        allocator.replay([256], [0, 0])
    with pytest.raises(ValueError, match="event 0: buffer 0 is not allocated"):
        allocator.replay([256], [~0])


def test_the_peak_can_be_reset() -> None:
    allocator = BfcAllocator()
    held = allocator.allocate(1024)
    allocator.allocate(256)
    allocator.free(held)
    assert allocator.peak_bytes_in_use == 1280
    allocator.reset_peak()
    assert allocator.peak_bytes_in_use == 256


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes and a stream in which buffers are allocated once and perhaps freed later."""
    size = st.one_of(
        st.integers(0, 3000),
        st.sampled_from([256, 512, MIB, 3 * MIB]),
        st.integers(0, 40 * MIB),
        st.integers(100 * MIB, 600 * MIB),
    )
    sizes = draw(st.lists(size, min_size=1, max_size=40))
    events: list[int] = []
    alive: list[int] = []
    for buffer in range(len(sizes)):
        events.append(buffer)
        alive.append(buffer)
        frees = min(len(alive), draw(st.integers(0, 2)))
        events.extend(~alive.pop(draw(st.integers(0, len(alive) - 1))) for _ in range(frees))
    return sizes, events


def check_state(allocator: BfcAllocator, alive: dict[int, int]) -> None:
    """The chunks fill the regions without gap or overlap and agree with all totals."""
    chunks = list(allocator.chunks())
    for region in allocator.regions:
        position = region.address
        previous: Chunk | None = None
        for chunk in chunks:
            if region.address <= chunk.address < region.address + region.size_bytes:
                assert chunk.address == position
                assert previous is None or previous.in_use or chunk.in_use
                position += chunk.size_bytes
                previous = chunk
        assert position == region.address + region.size_bytes
    in_use = {chunk.address: chunk.size_bytes for chunk in chunks if chunk.in_use}
    assert in_use.keys() == alive.keys()
    assert all(in_use[address] >= requested for address, requested in alive.items())
    assert allocator.bytes_in_use == sum(in_use.values())
    assert allocator.reserved_bytes == sum(region.size_bytes for region in allocator.regions)
    free = [chunk.size_bytes for chunk in chunks if not chunk.in_use]
    assert allocator.largest_free_bytes() == max(free, default=0)


@given(stream=streams(), limit=st.one_of(st.none(), st.integers(256, 2000 * MIB)))
def test_chunks_tile_the_regions(stream: tuple[list[int], list[int]], limit: int | None) -> None:
    sizes, events = stream
    allocator = BfcAllocator(limit)
    held: dict[int, int | None] = {}
    alive: dict[int, int] = {}
    for event in events:
        if event >= 0:
            size = round_up(sizes[event])
            unreserved = None if limit is None else (limit - allocator.reserved_bytes) // 256 * 256
            if unreserved is not None and size > max(unreserved, allocator.largest_free_bytes()):
                held[event] = None
                with pytest.raises(OutOfMemory):
                    allocator.allocate(sizes[event])
                continue
            address = held[event] = allocator.allocate(sizes[event])
            if address is not None:
                alive[address] = sizes[event]
        else:
            address = held.pop(~event)
            allocator.free(address)
            if address is not None:
                del alive[address]
        check_state(allocator, alive)
        assert limit is None or allocator.reserved_bytes <= limit
    for address in alive:
        allocator.free(address)
    assert allocator.bytes_in_use == 0
    assert [(chunk.address, chunk.size_bytes) for chunk in allocator.chunks()] == sorted(allocator.regions)


@given(stream=streams())
def test_replay_is_the_same_as_single_calls_and_repeats(
    stream: tuple[list[int], list[int]],
) -> None:
    sizes, events = stream
    allocator = BfcAllocator()
    held: dict[int, int | None] = {}
    curve = []
    for event in events:
        if event >= 0:
            held[event] = allocator.allocate(sizes[event])
        else:
            allocator.free(held.pop(~event))
        curve.append(allocator.bytes_in_use)
    start = BfcAllocator()
    replays = [deepcopy(start).replay(sizes, events) for _ in range(2)]
    assert start.reserved_bytes == 0
    for replay in replays:
        assert replay.bytes_in_use.tolist() == curve
        alive = {buffer: address for buffer, address in held.items() if address is not None}
        assert {buffer: address for buffer, address in enumerate(replay.addresses) if address is not None} == alive
    assert max(curve) == allocator.peak_bytes_in_use


@given(stream=streams())
def test_best_fit_by_plain_search(stream: tuple[list[int], list[int]]) -> None:
    """The sorted list finds the chunk that a search of all free chunks finds."""
    sizes, events = stream
    allocator = BfcAllocator()
    held: dict[int, int | None] = {}
    for event in events:
        if event < 0:
            allocator.free(held.pop(~event))
            continue
        fitting = [
            (chunk.size_bytes, chunk.address)
            for chunk in allocator.chunks()
            if not chunk.in_use and chunk.size_bytes >= round_up(sizes[event])
        ]
        regions = len(allocator.regions)
        address = held[event] = allocator.allocate(sizes[event])
        if sizes[event] == 0:
            assert address is None
        elif fitting:
            assert address == min(fitting)[1]
            assert len(allocator.regions) == regions
        else:
            assert address == allocator.regions[-1].address
            assert len(allocator.regions) == regions + 1


@pytest.mark.parametrize("place", [place_below, place_above])
def test_more_memory_than_a_machine_has_is_allocated_too(place) -> None:
    allocator = BfcAllocator(place_region=place)
    addresses = [allocator.allocate(size << 40) for size in (300, 200, 100, 300)]
    assert len(set(addresses)) == 4
    assert allocator.bytes_in_use >= 900 << 40
    for address in addresses:
        allocator.free(address)
    assert allocator.bytes_in_use == 0


def test_more_memory_than_can_be_addressed_is_one_line() -> None:
    with pytest.raises(LowtideError, match=r"more memory than can be addressed.*use a smaller batch"):
        BfcAllocator().allocate(1 << 61)
