"""Blocks side by side: every row is found, however many blocks there is room for, and none is read without need."""

import threading

import numpy as np
import pytest

from lowtide.feed.readers.block_slots import BlockSlots

SIZES = [7, 10, 3, 10, 1, 9, 10, 4]
FIRST = np.concatenate([[0], np.cumsum(SIZES)])


def make(slots, read):
    """Blocks of a number, a text and a flag, which state their place in the whole."""

    def load(block):
        read.append(block)
        rows = np.arange(FIRST[block], FIRST[block + 1])
        yield rows.astype(np.float32)
        yield np.array([f"row {row}" for row in rows], object)
        yield rows % 2 == 0

    dtypes = [np.dtype(np.float32), np.dtype(object), np.dtype(np.bool_)]
    return BlockSlots(dtypes, len(SIZES), slots, max(SIZES), load)


def take(slots, places):
    blocks = np.searchsorted(FIRST, places, side="right") - 1
    numbers, texts, flags = slots.take(blocks, places - FIRST[blocks])
    assert numbers.tolist() == places.tolist()
    assert texts.tolist() == [f"row {place}" for place in places]
    assert flags.tolist() == (places % 2 == 0).tolist()
    assert (numbers.dtype, flags.dtype) == (np.float32, np.bool_)


@pytest.mark.parametrize("slots", [1, 2, 3, 8, 100])
def test_every_row_is_found_with_any_number_of_slots(slots):
    read = []
    kept = make(slots, read)
    random = np.random.default_rng(slots)
    for _ in range(30):
        take(kept, random.integers(0, FIRST[-1], 25))
    take(kept, np.arange(FIRST[-1]))
    if slots >= len(SIZES):
        assert sorted(read) == list(range(len(SIZES)))


def test_the_least_recently_used_block_goes_first():
    read = []
    kept = make(2, read)
    for block in (0, 1, 0, 3, 0, 1):
        take(kept, np.array([FIRST[block]]))
    assert read == [0, 1, 3, 1]


def test_cached_blocks_come_first():
    read = []
    kept = make(2, read)
    take(kept, FIRST[[5, 6]])
    take(kept, FIRST[[1, 3, 5, 6]])
    assert read == [5, 6, 1, 3]


def test_more_rows_than_are_taken_together():
    kept = make(8, [])
    take(kept, np.random.default_rng(0).integers(0, FIRST[-1], 10_000))


def test_a_block_that_cannot_be_read_is_tried_again():
    failing = [True]

    def load(block):
        yield np.full(SIZES[block], block, np.float32)
        if failing.pop() if failing else False:
            raise OSError("the disk is gone")
        yield np.zeros(SIZES[block], np.bool_)

    kept = BlockSlots([np.dtype(np.float32), np.dtype(np.bool_)], len(SIZES), 2, max(SIZES), load)
    with pytest.raises(OSError, match="disk"):
        kept.take(np.array([1]), np.array([0]))
    assert kept.take(np.array([1]), np.array([0]))[0].tolist() == [1]


def test_several_readers_do_not_disturb_each_other():
    kept, failed = make(2, []), []

    def work(seed):
        random = np.random.default_rng(seed)
        try:
            for _ in range(100):
                take(kept, random.integers(0, FIRST[-1], 20))
        except AssertionError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
