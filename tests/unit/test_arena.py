"""The block that a planned step requests before its first call."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from lowtide.simulator.arena import arena_requests
from lowtide.simulator.bfc import BfcAllocator, OutOfMemory

MEBIBYTE = 1 << 20


def requests(total: int, highest: int, held: int = 0) -> list[int]:
    wanted = arena_requests(total * MEBIBYTE, held * MEBIBYTE, highest * MEBIBYTE)
    return [each // MEBIBYTE for each in wanted]


def fetch(allocator: BfcAllocator, total: int) -> None:
    for wanted in arena_requests(total * MEBIBYTE, allocator.bytes_in_use, allocator.peak_bytes_in_use):
        with suppress(OutOfMemory):
            allocator.free(allocator.allocate(wanted))
            break


def region_sizes(allocator: BfcAllocator) -> list[int]:
    return [region.size_bytes // MEBIBYTE for region in allocator.regions]


def test_the_request_is_slightly_more_than_half_of_the_region():
    # Regions of 2, 4, 8 and 16 MiB are there. Of 100 MiB 70 are left, for which the allocator would fetch 128; if there
    # is one of 32 as well, 38 are left, which is less than the next region, so nothing has to be asked for.
    assert requests(100, 20) == [65]
    # And of 200 MiB 170 or 138: regions of 256 MiB.
    assert requests(200, 20) == [129, 129]


def test_no_request_if_the_next_region_is_large_enough():
    assert requests(100, 40) == []


def test_a_reset_high_water_mark_is_not_trusted():
    # A process with 24 MiB in use had more in use before, even if the allocator reports less: a region has 32 MiB.
    assert requests(200, 24, 24) == requests(200, 36) == [129]


def test_the_rest_of_the_limit_becomes_one_region():
    allocator = BfcAllocator(100 * MEBIBYTE)
    for _ in range(4):
        allocator.allocate(MEBIBYTE)
    fetch(allocator, 100)
    assert region_sizes(allocator) == [2, 4, 94]


def test_one_more_region_than_estimated_is_handled():
    allocator = BfcAllocator(100 * MEBIBYTE)
    for _ in range(5):
        allocator.allocate(int(1.5 * MEBIBYTE))
    # What is in use, and half as much, would have room in 2, 4 and 8 MiB. A request that these could not serve made
    # one of 16, and the mark of it is gone.
    allocator.free(allocator.allocate(7 * MEBIBYTE))
    allocator.reset_peak()
    assert region_sizes(allocator) == [2, 4, 8, 16]
    fetch(allocator, 100)
    assert region_sizes(allocator) == [2, 4, 8, 16, 70]


@given(st.lists(st.integers(1, 3 * MEBIBYTE), min_size=1, max_size=40), st.integers(20, 400))
def test_an_arena_is_one_region_and_most_of_the_rest(held, limit):
    allocator = BfcAllocator(limit * MEBIBYTE)
    if sum(held) > limit * MEBIBYTE // 3:
        return
    for size in held:
        allocator.allocate(size)
    before = list(allocator.regions)
    left = limit * MEBIBYTE - sum(region.size_bytes for region in before)
    fetch(allocator, limit)
    fetched = [region for region in allocator.regions if region not in before]
    assert len(fetched) <= 1
    assert all(region.size_bytes > left / 2 for region in fetched)
