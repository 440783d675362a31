"""How large a block a planned step asks for before it begins."""

from hypothesis import given
from hypothesis import strategies as st

from lowtide.tide.basin import basin_bytes
from lowtide.tide.bfc import BfcAllocator

MEBIBYTE = 1 << 20


def test_it_leaves_room_for_the_regions_that_are_there():
    assert basin_bytes(100 * MEBIBYTE, 10 * MEBIBYTE) == 66 * MEBIBYTE
    assert basin_bytes(100 * MEBIBYTE, 10 * MEBIBYTE - 1) == 66 * MEBIBYTE


def test_a_process_that_holds_much_already_gets_none():
    assert basin_bytes(100 * MEBIBYTE, 40 * MEBIBYTE) == 0


def test_the_rest_of_the_limit_becomes_one_region():
    allocator = BfcAllocator(100 * MEBIBYTE)
    allocator.allocate(5 * MEBIBYTE)
    allocator.free(allocator.allocate(basin_bytes(100 * MEBIBYTE, allocator.peak_bytes_in_use)))
    # The first request raised the first region to 8 MiB. 81 are asked for: 128, of which the limit leaves 92.
    sizes = [region.size_bytes // MEBIBYTE for region in allocator.regions]
    assert sum(sizes) == 100
    assert len(sizes) == 2


@given(st.lists(st.integers(1, 3 * MEBIBYTE), min_size=1, max_size=40), st.integers(20, 400))
def test_it_is_never_more_than_the_limit_leaves(held, limit):
    """An allocator that cannot serve a request waits, and then tells at length."""
    allocator = BfcAllocator(limit * MEBIBYTE)
    if sum(held) > limit * MEBIBYTE // 3:
        return
    for size in held:
        allocator.allocate(size)
    allocator.allocate(basin_bytes(limit * MEBIBYTE, allocator.peak_bytes_in_use))
