"""Tables of the index: numbers for hashes over many batches, and places of values in a sorted column."""

from __future__ import annotations

import numpy as np
import pytest

from lowtide.atlas.index.arrays import find_sorted, smallest_dtype
from lowtide.atlas.index.columns import run_in_threads
from lowtide.atlas.index.text import HashNumbering


@pytest.mark.parametrize("distinct", [1, 7, 3_000])
def test_numbers_follow_the_first_appearance_over_many_batches(distinct: int) -> None:
    random = np.random.default_rng(distinct)
    values = random.integers(0, 1 << 63, distinct).astype(np.uint64)
    numbering, expected = HashNumbering(), {}
    for _ in range(40):
        batch = values[random.integers(0, distinct, 200)]
        numbers, fresh = numbering.add(batch)
        new = [place for place, value in enumerate(batch.tolist()) if value not in expected]
        for value in batch.tolist():
            expected.setdefault(value, len(expected))
        assert numbers.tolist() == [expected[value] for value in batch.tolist()]
        assert batch[fresh].tolist() == list(dict.fromkeys(batch[new].tolist()))
    assert len(numbering) == len(expected)
    found, known = numbering.find(np.append(values, np.uint64(1 << 63)))
    assert found[known].tolist() == [expected[value] for value in values.tolist() if value in expected]
    assert not known[-1]
    hashes, numbers = numbering.columns()
    assert hashes.tolist() == sorted(expected)
    assert dict(zip(hashes.tolist(), numbers.tolist(), strict=True)) == expected


def test_an_empty_numbering_knows_nothing() -> None:
    numbers, known = HashNumbering().find(np.array([3, 5], np.uint64))
    assert numbers.tolist() == [0, 0]
    assert not known.any()
    assert [len(column) for column in HashNumbering().columns()] == [0, 0]


def test_values_are_found_at_the_first_place_that_has_them() -> None:
    rows, places = find_sorted(np.array([2, 4, 4, 9]), np.array([9, 1, 4, 10, 2]))
    assert dict(zip(rows.tolist(), places.tolist(), strict=True)) == {0: 3, 2: 1, 4: 0}
    assert [len(column) for column in find_sorted(np.zeros(0), np.array([1]))] == [0, 0]


def test_work_in_threads_is_all_done_and_its_error_is_raised() -> None:
    seen = np.zeros(1_000, np.int64)

    def mark(low: int) -> None:
        seen[low : low + 10] += 1

    run_in_threads(mark, range(0, 1_000, 10))
    assert (seen == 1).all()
    with pytest.raises(ZeroDivisionError):
        run_in_threads(lambda item: print(1 // item), [1, 0])


@pytest.mark.parametrize(
    ("count", "bytes_each"), [(0, 1), (1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4), (1 << 32, 4)]
)
def test_few_numbers_take_few_bytes(count: int, bytes_each: int) -> None:
    assert np.dtype(smallest_dtype(count)).itemsize == bytes_each
