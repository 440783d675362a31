"""A series of remat searches: for each target a schedule that was not found before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lowtide.planning.problem import PlanningProblem
from lowtide.planning.remat.remat_search import RematSolution, find_schedule
from lowtide.planning.tuning import TUNING
from lowtide.progress import Progress, ProgressCallback


class TargetSearch:
    """Finds schedules for target peaks, and remembers them."""

    def __init__(self, problem: PlanningProblem, progress: ProgressCallback = lambda progress: None) -> None:
        self.problem = problem
        self.progress = progress
        self.seen: set[tuple[int, ...]] = set()
        self.lowest: RematSolution | None = None
        """The solution of a target that no schedule reaches; there is nothing to find below it."""

    def find(
        self, target_bytes: int, start: RematSolution | None = None, lower_targets: int = TUNING.lower_targets
    ) -> RematSolution | None:
        """Return the cheapest schedule for a target; if it is known, try up to `lower_targets` lower ones.

        Each search starts from what the one before found, the first one from `start`. Returns None if all are known.
        """
        base_bytes = self.problem.base_bytes
        for _ in range(1 + lower_targets):
            solution = self._find(target_bytes, start)
            if (schedule := tuple(solution.schedule)) not in self.seen:
                self.seen.add(schedule)
                return solution
            if not solution.within:
                break
            start = solution
            lowered_by = int(TUNING.lower_by * (target_bytes - base_bytes))
            target_bytes = min(target_bytes, solution.profile.peak_bytes) - lowered_by
        return None

    def allow_again(self, solution: RematSolution) -> None:
        """Forget a solution, so that it can be found again."""
        self.seen.discard(tuple(solution.schedule))

    def _find(self, target_bytes: int, start: RematSolution | None) -> RematSolution:
        if self.lowest is not None and target_bytes < self.lowest.profile.peak_bytes:
            return self.lowest
        report = self._report("searching for a plan")
        solution = find_schedule(self.problem, target_bytes, report, TUNING.remat_quick_effort, start)
        if not solution.within:
            solution = self.lowest = self._lower(solution, target_bytes)
        elif solution.profile.extra_us > TUNING.remat_worth_effort * self.problem.total_us:
            report = self._report("searching for a cheaper plan")
            solution = find_schedule(self.problem, target_bytes, report, start=solution)
        return solution

    def _lower(self, solution: RematSolution, target_bytes: int) -> RematSolution:
        """Return the solution, or the one for the lowest possible target, where that has a lower peak.

        A search that misses its target need not have found the lowest peak, and a lower target leads to another one.
        """
        if target_bytes <= self.problem.base_bytes:
            return solution
        report = self._report("searching for the smallest plan")
        deepest = find_schedule(self.problem, self.problem.base_bytes, report, TUNING.remat_quick_effort)
        if deepest.profile.peak_bytes > solution.profile.peak_bytes:
            return solution
        return replace(deepest, within=deepest.profile.peak_bytes <= target_bytes)

    def _report(self, stage: str) -> Callable[[float], None]:
        """Return a callback that reports the progress of a search, once for each percent."""
        reported = -1

        def report(share: float) -> None:
            nonlocal reported
            if int(100 * share) > reported:
                reported = int(100 * share)
                self.progress(Progress(stage, reported, 100))

        report(0.0)
        return report
