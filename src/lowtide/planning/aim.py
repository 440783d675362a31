"""One search after another: from an aim to a course that was not seen before."""

from __future__ import annotations

from lowtide.planning.problem import Problem
from lowtide.planning.recompute import Answer, lower

# A first search is quick; what costs more than this share of the step is worth a longer one.
QUICK_EFFORT = 4_000
WORTH_AN_EFFORT = 0.04
# Where an aim leads to a course that was seen, how often to lower it by how much.
LOWER_AIMS, LOWER_BY = 4, 0.03


def take_aim(problem: Problem, aim: int, seen: set[tuple[int, ...]]) -> Answer | None:
    """The cheapest course for an aim, or for a somewhat lower one where that is known already."""
    for _ in range(LOWER_AIMS):
        answer = lower(problem, aim, effort=QUICK_EFFORT)
        if answer.within and answer.flood.extra_us > WORTH_AN_EFFORT * problem.total_us:
            answer = lower(problem, aim)
        if (course := tuple(answer.course)) not in seen:
            seen.add(course)
            return answer
        if not answer.within:
            break
        aim = min(aim, answer.flood.peak_bytes) - int(LOWER_BY * (aim - problem.base_bytes))
    return None
