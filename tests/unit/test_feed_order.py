"""Orders of samples: permutations without bias, windows of blocks, and shards that cover the whole."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.order import ShardedOrder, ShuffledOrder, StoredOrder, WindowedOrder, permute
from lowtide.feed.pipeline.sizing import choose_sizes, read_together

# Above 2**20 samples an order is computed, not listed.
COMPUTED = (1 << 20) + 12_345


def whole(order, epoch=0):
    return order.at(epoch, np.arange(order.count))


@settings(deadline=None, max_examples=60)
@given(count=st.integers(0, 3_000), seed=st.integers(0, 1 << 62), epoch=st.integers(0, 1 << 40))
def test_every_epoch_is_a_permutation(count, seed, epoch):
    assert np.array_equal(np.sort(whole(ShuffledOrder(count, seed), epoch)), np.arange(count))


def test_a_computed_order_is_a_permutation_too():
    order = ShuffledOrder(COMPUTED, 3)
    first, second = whole(order, 0), whole(order, 1)
    assert np.array_equal(np.sort(first), np.arange(COMPUTED))
    assert np.count_nonzero(first == second) < 20
    assert np.count_nonzero(first == np.arange(COMPUTED)) < 20
    # A position always has the same sample.
    places = np.array([5, COMPUTED - 1, 77])
    assert order.at(0, places).tolist() == first[places].tolist()


def test_epochs_and_seeds_differ_and_are_the_same_again():
    order = ShuffledOrder(500, 7)
    assert whole(order, 2).tolist() == whole(ShuffledOrder(500, 7), 2).tolist()
    assert whole(order, 2).tolist() != whole(order, 3).tolist()
    assert whole(order, 2).tolist() != whole(ShuffledOrder(500, 8), 2).tolist()
    assert whole(StoredOrder(4)).tolist() == [0, 1, 2, 3]


def chi_squared(observed, expected):
    """How unlikely counts are, as standard deviations of what chance would give."""
    freedom = observed.size - observed.shape[0] - observed.shape[1] + 1
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return (statistic - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("count", [10, 1_000, COMPUTED])
def test_no_sample_prefers_a_place(count):
    cells = 10
    table = np.zeros((cells, cells))
    for epoch in range(400 if count < 10_000 else 1):
        found = permute(count, np.arange(count), 11, epoch)
        np.add.at(table, (np.arange(count) * cells // count, found * cells // count), 1)
    # Five deviations are less than one in a million by chance; the seeds are fixed, so this never fails by chance.
    assert abs(chi_squared(table, np.outer(table.sum(1), table.sum(0)) / table.sum())) < 5


@settings(deadline=None, max_examples=80)
@given(
    blocks=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    window=st.integers(1, 300),
    seed=st.integers(0, 1000),
)
def test_windows_hold_whole_blocks_and_lose_nothing(blocks, window, seed):
    order = WindowedOrder(blocks, window, seed)
    found = whole(order, 5)
    assert np.array_equal(np.sort(found), np.arange(sum(blocks)))
    block_of = np.repeat(np.arange(len(blocks)), blocks)[found]
    # From the first to the last sample of a block there is no more than a window and the block that fills it.
    for block, size in enumerate(blocks):
        places = np.flatnonzero(block_of == block)
        assert places.max() - places.min() < window + max(blocks) + size


def test_windows_are_other_ones_in_each_epoch():
    order = WindowedOrder([10] * 30, 60, 1)
    assert whole(order, 0).tolist() != whole(order, 1).tolist()
    assert "30 blocks" in order.describe()


@settings(deadline=None, max_examples=40)
@given(count=st.integers(0, 200), shards=st.integers(1, 9))
def test_shards_are_disjoint_and_cover_the_set(count, shards):
    order = ShuffledOrder(count, 4)
    parts = [whole(ShardedOrder(order, index, shards), 3) for index in range(shards)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@settings(deadline=None, max_examples=200)
@given(
    budget=st.integers(1, 10_000),
    batch=st.integers(1, 900),
    processors=st.integers(1, 16),
    block=st.integers(0, 2_000),
    scratch=st.integers(0, 300),
)
def test_sizes_are_within_the_budget_or_refused_with_what_is_needed(budget, batch, processors, block, scratch):
    # There is one thread more than readers.
    least = 3 * batch + block + 2 * scratch
    if budget < least:
        with pytest.raises(LowtideError, match="at least"):
            choose_sizes(budget, batch, processors, block, reader_bytes=scratch)
        return
    sizing = choose_sizes(budget, batch, processors, block, reader_bytes=scratch)
    assert sizing.peak_bytes <= budget
    assert 1 <= sizing.readers <= processors
    assert sizing.window_bytes >= block


@settings(deadline=None)
@given(budget=st.integers(1, 1 << 28), batch=st.integers(1, 1 << 23), processors=st.integers(1, 16))
def test_runs_are_within_the_budget_too(budget, batch, processors):
    if budget < 3 * batch:
        return
    before = choose_sizes(budget, batch, processors)
    sizing = read_together(before)
    assert sizing.batches_per_read >= 1
    assert sizing.peak_bytes <= budget
    assert sizing.batches_per_read == 1 or sizing.batches_per_read * batch <= 4 << 20
    # Readers have a run each, one is cut, and one is in use.
    if sizing.batches_per_read > 1:
        assert sizing.peak_bytes == batch * ((sizing.readers + 2) * sizing.batches_per_read + sizing.prefetched + 2)


def test_windows_of_several_blocks():
    order = WindowedOrder([3, 9, 9, 1, 9, 4, 9], 18, 5, most_blocks=2)
    first = np.concatenate([[0], np.cumsum(order.blocks)])
    found = whole(order)
    assert np.array_equal(np.sort(found), np.arange(order.count))
    block = np.searchsorted(first, found, side="right") - 1
    seen = list(dict.fromkeys(block.tolist()))
    # What has been left is not entered again, but for the two of a window.
    for place, number in enumerate(block.tolist()):
        assert seen.index(number) // 2 >= seen.index(int(block[max(place - 1, 0)])) // 2


def test_more_room_means_more_ahead():
    ahead = [choose_sizes(budget, 10, 4).prefetched for budget in (30, 40, 50, 80, 400)]
    assert ahead == sorted(ahead)
    assert (ahead[0], ahead[-1]) == (0, 8)
