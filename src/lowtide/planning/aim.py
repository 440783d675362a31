"""One search after another: from an aim to a course that was not seen before."""

from __future__ import annotations

from collections.abc import Callable

from lowtide.planning.problem import Problem
from lowtide.planning.recompute import Answer, lower

# A first search is quick; what costs more than this share of the step is worth a longer one.
QUICK_EFFORT = 8_000
WORTH_AN_EFFORT = 0.05
# Where an aim leads to a course that was seen, how often to lower it by how much.
LOWER_AIMS, LOWER_BY = 3, 0.03


def take_aim(
    problem: Problem,
    aim: int,
    seen: set[tuple[int, ...]],
    start: Answer | None = None,
    tell: Callable[[str], None] = lambda text: None,
    lower_aims: int = LOWER_AIMS,
) -> Answer | None:
    """The cheapest course for an aim, or for a somewhat lower one where that is known already; None if all are.

    Each search goes on from what the one before found, the first one from `start`.
    """
    for _ in range(1 + lower_aims):
        answer = lower(problem, aim, _searching(tell, "for a plan"), QUICK_EFFORT, start)
        if answer.within and answer.flood.extra_us > WORTH_AN_EFFORT * problem.total_us:
            answer = lower(problem, aim, _searching(tell, "for a cheaper plan"), start=answer)
        if (course := tuple(answer.course)) not in seen:
            seen.add(course)
            return answer
        if not answer.within:
            break
        start = answer
        aim = min(aim, answer.flood.peak_bytes) - int(LOWER_BY * (aim - problem.base_bytes))
    return None


def _searching(tell: Callable[[str], None], what: str) -> Callable[[float], None]:
    """Tells how far a search is, in whole percents."""
    told = -1

    def heard(share: float) -> None:
        nonlocal told
        if int(100 * share) > told:
            told = int(100 * share)
            tell(f"searching {what}: {told}%")

    heard(0.0)
    return heard
