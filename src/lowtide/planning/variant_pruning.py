"""VariantPruning: which variants of a step are not worth a trace and a search, by what others took.

A part of what a step takes shrinks with the pieces of its batch, and a part does not: what is there before it, and the
gradients. Two searches tell both parts, about. One tells how low more pieces could get if everything shrank.
"""

from __future__ import annotations

from lowtide.planning.plan import NoPlanError

# A step may get so much lower than these figures say, as a share of what it takes by itself.
_DOUBT = 0.5


class VariantPruning:
    """What is known of the variants that were tried in vain."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.splits = True
        """Whether the batch can be split at all."""
        self._smallest: dict[str | None, list[tuple[int, int]]] = {}
        self._held_bytes = 0

    def note(self, pieces: int, precision: str | None, error: NoPlanError) -> None:
        """Remember how low a variant came."""
        if error.before is not None:
            self._held_bytes = int(error.before.curve.bytes_in_use[0])
        self._smallest.setdefault(precision, []).append((pieces, error.smallest_bytes))

    def is_hopeless(self, pieces: int, precision: str | None) -> bool:
        """Whether a variant is as good as sure to be above the budget."""
        if self._held_bytes >= self.budget_bytes or (pieces > 1 and not self.splits):
            return True
        tried = self._smallest.get(precision)
        if not tried:
            return False
        held = self._held_bytes
        expected = expected_bytes(tried, pieces, held)
        return held + (1 - _DOUBT) * (expected - held) > self.budget_bytes


def expected_bytes(tried: list[tuple[int, int]], pieces: int, held_bytes: int) -> float:
    """How low a batch in so many pieces may get, by (pieces, smallest bytes) of those that were tried, in order."""
    last, smallest = tried[-1]
    if len(tried) == 1:
        return held_bytes + (smallest - held_bytes) * last / pieces
    first, larger = tried[-2]
    shrinking = max(0.0, (larger - smallest) / (1 / first - 1 / last))
    return smallest - shrinking * (1 / last - 1 / pieces)
