"""One search after another: from an aim to a course that was not seen before."""

from __future__ import annotations

from collections.abc import Callable

from lowtide.planning.problem import Problem
from lowtide.planning.remat.remat_search import Answer, lower
from lowtide.progress import Progress, ProgressCallback

# A first search is quick; what costs more than this share of the step is worth a longer one.
QUICK_EFFORT = 8_000
WORTH_AN_EFFORT = 0.05
# Where an aim leads to a course that was seen, how often to lower it by how much.
LOWER_AIMS, LOWER_BY = 3, 0.03


class Aims:
    """What was aimed at in a problem, and what was found."""

    def __init__(self, problem: Problem, tell: ProgressCallback = lambda progress: None) -> None:
        self.problem = problem
        self.tell = tell
        self.seen: set[tuple[int, ...]] = set()
        self.lowest: Answer | None = None
        """Of an aim that no course reaches: below it there is nothing to be found."""

    def take(self, aim: int, start: Answer | None = None, lower_aims: int = LOWER_AIMS) -> Answer | None:
        """The cheapest course for an aim, or for a somewhat lower one where that is known already; None if all are.

        Each search goes on from what the one before found, the first one from `start`.
        """
        for _ in range(1 + lower_aims):
            answer = self._find(aim, start)
            if (course := tuple(answer.course)) not in self.seen:
                self.seen.add(course)
                return answer
            if not answer.within:
                break
            start = answer
            aim = min(aim, answer.flood.peak_bytes) - int(LOWER_BY * (aim - self.problem.base_bytes))
        return None

    def put_back(self, answer: Answer) -> None:
        """Let an answer come up again."""
        self.seen.discard(tuple(answer.course))

    def _find(self, aim: int, start: Answer | None) -> Answer:
        if self.lowest is not None and aim < self.lowest.flood.peak_bytes:
            return self.lowest
        answer = lower(self.problem, aim, self._searching("for a plan"), QUICK_EFFORT, start)
        if not answer.within:
            self.lowest = answer
        elif answer.flood.extra_us > WORTH_AN_EFFORT * self.problem.total_us:
            answer = lower(self.problem, aim, self._searching("for a cheaper plan"), start=answer)
        return answer

    def _searching(self, what: str) -> Callable[[float], None]:
        """Return a callback that reports how far a search is, once for each percent."""
        reported = -1

        def report(share: float) -> None:
            nonlocal reported
            if int(100 * share) > reported:
                reported = int(100 * share)
                self.tell(Progress(f"searching {what}", reported, 100))

        report(0.0)
        return report
