"""Which variants of a step are not worth a trace and a search, judged by the variants that were tried.

Part of a step's memory shrinks with the number of micro-batches, and part does not: what exists before the step, and
the gradients. Two searches estimate both parts. After one search, the bound assumes that everything shrinks.
"""

from __future__ import annotations

from lowtide.planning.plan import NoPlanError
from lowtide.planning.tuning import TUNING


class VariantPruning:
    """The smallest peaks of the variants that did not fit."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.splits = True
        """Whether the batch can be split."""
        self._smallest: dict[str | None, list[tuple[int, int]]] = {}
        self._held_bytes = 0

    def note(self, pieces: int, precision: str | None, error: NoPlanError) -> None:
        """Record the smallest peak of a variant."""
        if error.held is not None:
            self._held_bytes = error.held.total_bytes
        if error.smallest_bytes is not None:
            self._smallest.setdefault(precision, []).append((pieces, error.smallest_bytes))

    def is_hopeless(self, pieces: int, precision: str | None) -> bool:
        """Whether a variant is almost certain to be above the budget."""
        if self._held_bytes >= self.budget_bytes or (pieces > 1 and not self.splits):
            return True
        tried = self._smallest.get(precision)
        if not tried:
            return False
        held = self._held_bytes
        expected = expected_bytes(tried, pieces, held)
        return held + (1 - TUNING.pruning_doubt) * (expected - held) > self.budget_bytes


def expected_bytes(tried: list[tuple[int, int]], pieces: int, held_bytes: int) -> float:
    """Extrapolate the smallest peak for a number of micro-batches from (pieces, smallest bytes) of earlier ones."""
    last, smallest = tried[-1]
    if len(tried) == 1:
        return held_bytes + (smallest - held_bytes) * last / pieces
    first, larger = tried[-2]
    shrinking = max(0.0, (larger - smallest) / (1 / first - 1 / last))
    return smallest - shrinking * (1 / last - 1 / pieces)
