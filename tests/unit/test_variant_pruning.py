"""Which variants of a step are worth a search, by what others took."""

import pytest

from lowtide.planning.plan import Held, NoPlanError
from lowtide.planning.variant_pruning import VariantPruning, expected_bytes
from tests.plans import make_plan

BEFORE = make_plan().before
HELD = Held.of(BEFORE).total_bytes


def tried(budget_bytes, *smallest):
    """VariantPruning after 1, 2, 4... micro-batches did not fit."""
    pruning = VariantPruning(budget_bytes)
    for doublings, bytes_ in enumerate(smallest):
        pruning.note(1 << doublings, None, NoPlanError("no plan", budget_bytes, bytes_, before=BEFORE))
    return pruning


def gone(pruning, precision=None):
    return [pieces for pieces in (2, 4, 8, 16, 32, 64) if pruning.is_hopeless(pieces, precision)]


@pytest.mark.parametrize(
    ("smallest", "pieces", "expected"),
    [
        # By one figure all that is not there before shrinks.
        ([(1, 900)], 2, 500),
        ([(1, 900)], 8, 200),
        # By two, 300 bytes of 900 do not.
        ([(1, 900), (2, 600)], 4, 450),
        ([(1, 900), (2, 600)], 64, 300 + 600 / 64),
        # More pieces do not help.
        ([(1, 900), (2, 950)], 64, 950),
    ],
)
def test_how_low_more_pieces_may_get(smallest, pieces, expected):
    assert expected_bytes(smallest, pieces, held_bytes=100) == pytest.approx(expected)


def test_nothing_is_pruned_before_the_first_trial():
    assert gone(VariantPruning(1)) == []


def test_too_few_pieces_are_left_out():
    # In halves the step takes at least a quarter of 1600 bytes, in quarters an eighth.
    assert gone(tried(HELD + 210, HELD + 1600)) == [2]


def test_where_pieces_do_not_help_no_more_are_tried():
    assert gone(tried(HELD + 210, HELD + 1600, HELD + 1500)) == [2, 4, 8, 16, 32, 64]
    assert gone(tried(HELD + 210, HELD + 1600, HELD + 1500), "mixed_bfloat16") == []


def test_no_variant_lowers_the_memory_from_before_the_step():
    assert gone(tried(HELD, HELD), "mixed_bfloat16") == [2, 4, 8, 16, 32, 64]


def test_a_batch_that_cannot_be_split_is_not_split_again():
    pruning = VariantPruning(1 << 40)
    pruning.splits = False
    assert gone(pruning) == [2, 4, 8, 16, 32, 64]
    assert not pruning.is_hopeless(1, "mixed_bfloat16")
