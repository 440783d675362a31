"""The search for a plan: schedule, simulate the rewritten step, correct the target, and try again.

The search goes through these steps:

1. Find the cheapest schedule whose peak, by the planner's own memory profile, is at a *target*.
2. Build the rewrite that enforces it, with as much concurrency as memory allows, and simulate the rewritten step.
3. If the simulated step fits and is good enough, stop. If it misses, either enforce the same schedule more strictly, or
   move the target by what the simulation showed, and go back to 1.
4. If none fits by a small margin, or the plan is expensive, try schedules between the lowest one and the room: what the
   allocator's chunks take jumps from schedule to schedule, so a schedule between two that missed may fit.

Building and simulating a rewrite needs the program; a `RewriteSimulator` does it.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Protocol

from lowtide.planning.memory_profile import profile_schedule
from lowtide.planning.plan import FrontierPoint, LazyFrontier, NoPlanError
from lowtide.planning.problem import PlanningProblem
from lowtide.planning.remat.remat_search import RematSolution, find_schedule, frontier
from lowtide.planning.remat.target_search import TargetSearch
from lowtide.planning.rewrite.concurrency import FIRM, LOOSE, NONE, STRICTER, Concurrency
from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.planning.tuning import TUNING
from lowtide.progress import Progress, ProgressCallback
from lowtide.simulator.tuning import SAFE_BYTES
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes_up, parse_bytes


@dataclass
class Attempt:
    """A simulated rewrite."""

    solution: RematSolution
    rewrite: Rewrite
    after: Tide
    used_bytes: int
    """What the rewritten step takes on top of what is in use throughout."""
    extra_us: float
    """How much longer it takes than the plain step."""
    spread: float
    """The difference between its peaks from step to step, as a share of the median."""
    step: Any
    """The rewritten step, for the caller of the search."""

    def fits(self, budget_bytes: int) -> bool:
        """Whether the rewritten step keeps a budget."""
        return self.after.safe_bytes <= budget_bytes


class RewriteSimulator(Protocol):
    """A step whose rewrites can be simulated."""

    problem: PlanningProblem
    before: Tide
    compiled: bool
    """Whether XLA compiles the step. It chooses the order itself, so no concurrency can be given."""

    def room(self, budget_bytes: int) -> int:
        """Return what a budget leaves on top of what is in use throughout."""

    def plain_used_bytes(self) -> int:
        """Return what the plain step takes on top of what is in use throughout; only for a compiled step."""

    def simulate(self, solution: RematSolution, concurrency: Concurrency, budget_bytes: int | None = None) -> Attempt:
        """Rewrite the step as a solution says, trace it again and simulate it."""


def first_target(budget_bytes: int) -> int:
    """Return the first target, so that the safe limit of what is found is about the budget."""
    return int(budget_bytes / (1.0 + TUNING.first_margin))


def search_plan(
    simulator: RewriteSimulator, budget_bytes: int, progress: ProgressCallback, thorough: bool = True
) -> Attempt:
    """Find a rewrite that keeps a budget at a low cost; raise NoPlanError if there is none.

    A search that is not `thorough` gives up sooner, for a caller that has other variants of the step to try.
    """
    return _PlanSearch(simulator, budget_bytes, progress, thorough).run()


class _PlanSearch:
    """What the next attempt will try, and what the attempts so far have shown."""

    def __init__(
        self, simulator: RewriteSimulator, budget_bytes: int, progress: ProgressCallback, thorough: bool
    ) -> None:
        self.simulator = simulator
        # XLA chooses the order itself: only the first steps of the search apply.
        self.thorough = thorough and not simulator.compiled
        self.problem = simulator.problem
        self.budget_bytes = budget_bytes
        self.room = simulator.room(budget_bytes)
        self.progress = progress
        self.targets = TargetSearch(self.problem, progress)
        # What the next attempt tries.
        self.target_bytes = self._first_target()
        self.concurrency = NONE if simulator.compiled else LOOSE
        self.solution: RematSolution | None = None
        self.keeps_schedule = False
        """Whether the next attempt enforces the same schedule more strictly."""
        # What the attempts have shown.
        self.last: Attempt | None = None
        self.best: Attempt | None = None
        self.smallest: tuple[Attempt, Concurrency] | None = None
        """The attempt with the lowest bound, if that is below the plain step's, and how it was enforced."""
        self.misses = 0

    def run(self) -> Attempt:
        most = TUNING.attempts if self.simulator.compiled else TUNING.attempts_without_plan
        for number in range(1, most + 1):
            if self.best is not None and number > TUNING.attempts:
                break
            if not self.keeps_schedule and not self._choose_schedule():
                break
            self.progress(Progress(f"tracing the planned step, attempt {number}"))
            self._simulate()
            if self._is_done(number) or not self._choose_target(number):
                break
        if self.best is None and self.thorough:
            self._try_lowest()
            self._try_between()
        if self.best is None:
            plain_bytes = self.simulator.before.safe_bytes
            points = () if self.last is None else lazy_frontier(self.problem, self.last, plain_bytes, self.budget_bytes)
            problem = "no plan reaches the budget"
            raise NoPlanError(problem, self.budget_bytes, self._smallest_budget(), points, before=self.simulator.before)
        return self._with_fewer_copies(self.best)

    def _try_lowest(self) -> None:
        """Simulate the lowest schedule, if the attempts did not come to it, with less and less concurrency."""
        found = self.targets.find(self.problem.base_bytes, lower_targets=0)
        for concurrency in (FIRM, NONE) if found is not None else ():
            if self.best is None:
                self.solution, self.concurrency = found, concurrency
                self.progress(Progress("tracing the lowest schedule"))
                self._simulate()

    def _smallest_budget(self) -> int:
        """Return the smallest budget that the attempt with the lowest bound keeps, rounded up as it is printed.

        The bound of an attempt depends on the budget, which limits the allocator's regions.
        """
        if self.smallest is None:
            return parse_bytes(format_bytes_up(self.simulator.before.safe_bytes))
        (attempt, concurrency), budget_bytes = self.smallest, 0
        for _ in range(TUNING.attempts):
            budget_bytes = parse_bytes(format_bytes_up(max(attempt.after.safe_bytes, budget_bytes + 1)))
            if not self.thorough:
                break
            self.progress(Progress("tracing the smallest plan again, within its own bound"))
            attempt = self.simulator.simulate(attempt.solution, concurrency, budget_bytes)
            if attempt.fits(budget_bytes):
                break
        return budget_bytes

    def _choose_schedule(self) -> bool:
        """Find a schedule for the target, or enforce the last one more strictly; return False to stop."""
        # A lower schedule costs more, so once a plan fits no lower target is tried.
        lower_targets = TUNING.lower_targets if self.best is None else 0
        found = self.targets.find(self.target_bytes, self.solution, lower_targets)
        if self.best is not None and (found is None or found.profile.extra_us >= self.best.extra_us):
            return False
        if found is not None and self.solution is None:
            found = self._prefer_higher(found)
        elif found is not None and self._prefers_stricter(found):
            # The schedule can be found again if this misses.
            self.targets.allow_again(found)
            found = None
        if found is not None:
            self.solution = found
        elif self.last is None or self.concurrency is NONE:
            return False
        else:
            self.concurrency = STRICTER[self.concurrency]
        return True

    def _prefer_higher(self, found: RematSolution) -> RematSolution:
        """Return a higher schedule where the first target is below all schedules.

        The lowest schedule need not take least: it has most copies, and their chunks fragment memory.
        """
        if found.within or self.simulator.compiled:
            return found
        higher = self.targets.find(self.problem.base_bytes + int(TUNING.high_share * self.room))
        if higher is None or not higher.within:
            return found
        self.targets.allow_again(found)
        return higher

    def _prefers_stricter(self, found: RematSolution) -> bool:
        """Whether the last schedule is enforced more strictly before the lowest one is tried, which has more copies."""
        assert self.solution is not None
        if not self.solution.within or found.within:
            return False
        if self.concurrency is LOOSE:
            return True
        # A strict order costs as much as many copies.
        strict_us = self.solution.profile.extra_us + TUNING.idle_share * self.problem.total_us
        return self.concurrency is FIRM and found.profile.extra_us > strict_us

    def _simulate(self) -> None:
        assert self.solution is not None
        attempt = self.simulator.simulate(self.solution, self.concurrency, self.budget_bytes)
        self.last = attempt
        smallest = self.simulator.before if self.smallest is None else self.smallest[0].after
        if attempt.after.safe_bytes < smallest.safe_bytes:
            self.smallest = attempt, self.concurrency
        fits = attempt.fits(self.budget_bytes)
        if fits and (self.best is None or attempt.extra_us <= self.best.extra_us):
            self.best = attempt

    def _is_done(self, number: int) -> bool:
        """Whether the best attempt is good enough: the budget is used up, little time is lost, or nothing is lower."""
        best = self.best
        if best is None:
            return False
        assert self.solution is not None
        cheap = number * (TUNING.cheap_share_compiled if self.simulator.compiled else TUNING.cheap_share)
        unused_bytes = self.budget_bytes - best.after.safe_bytes
        return (
            best.extra_us <= cheap * self.problem.total_us
            or unused_bytes <= TUNING.unused_share * self.budget_bytes
            or not self.solution.within
        )

    def _choose_target(self, number: int) -> bool:
        """Decide what the next attempt tries; return False if nothing is left."""
        assert self.solution is not None
        assert self.last is not None
        fits = self.last.fits(self.budget_bytes)
        missed = (self.last.after.safe_bytes - self.budget_bytes) / max(self.room, 1)
        # The same schedule, enforced more strictly, costs some time; a lower target may cost more.
        self.keeps_schedule = self.best is None and self._wants_stricter(number, missed)
        if self.keeps_schedule:
            self.concurrency = STRICTER[self.concurrency]
            return True
        if not (fits or self.solution.within):
            return False
        self.misses += not fits
        self.target_bytes = self._next_target(self.solution.profile.peak_bytes, self.last.used_bytes)
        if not (fits or self.simulator.compiled):
            lowered = self.misses * min(missed, TUNING.missed_share)
            self.target_bytes -= int(lowered * (self.target_bytes - self.problem.base_bytes))
        return True

    def _wants_stricter(self, number: int, missed: float) -> bool:
        """Whether a schedule that missed by a share of the room is enforced more strictly before a lower target."""
        assert self.solution is not None
        if self.concurrency is NONE:
            return False
        if not self.solution.within or number >= TUNING.strict_after:
            return True
        return self.concurrency is LOOSE and (number > 1 or missed > TUNING.near_miss)

    def _first_target(self) -> int:
        if not self.simulator.compiled:
            return first_target(self.budget_bytes)
        # What a compiled step takes as it is, is known.
        plain = profile_schedule(self.problem, range(len(self.problem))).peak_bytes
        return self._next_target(plain, self.simulator.plain_used_bytes())

    def _next_target(self, peak_bytes: int, used_bytes: int) -> int:
        """Return the target that would use all the room, if planned and used bytes keep their proportion.

        Or if they keep their difference, where XLA keeps what the planner does not see, such as transposed filters.
        """
        planned = peak_bytes - self.problem.base_bytes
        target = planned * self.room / max(used_bytes, 1)
        if self.simulator.compiled:
            target = max(min(target, planned + self.room - used_bytes), 0)
        return self.problem.base_bytes + int(target * TUNING.target_share)

    def _highest_target(self) -> float:
        """Return the highest target whose schedule may still fit."""
        return self.problem.base_bytes + TUNING.high_share * self.room

    def _try_between(self) -> None:
        """Simulate schedules between the lowest one and the room until one fits, if the budget was missed narrowly."""
        lowest = self.targets.lowest
        if lowest is None or self.smallest is None:
            return
        low, high = lowest.profile.peak_bytes, self._highest_target()
        self.concurrency = FIRM
        for number in range(1, TUNING.attempts_between + 1):
            missed_bytes = self.smallest[0].after.safe_bytes - self.budget_bytes
            if self.best is not None or missed_bytes > TUNING.narrow_miss * self.budget_bytes:
                break
            self.progress(Progress("tracing more schedules", number - 1, TUNING.attempts_between))
            target_bytes = int(high - (high - low) * number / (TUNING.attempts_between + 1))
            solution = self.targets.find(target_bytes, lowest, lower_targets=0)
            if solution is not None and solution.within:
                self.solution = solution
                self._simulate()

    def _with_fewer_copies(self, best: Attempt) -> Attempt:
        """Return the attempt, or one with fewer copies, where that fits and the attempt is expensive."""
        problem = self.problem
        lowest, highest = best.solution.profile.peak_bytes, self._highest_target()
        leaves_room = best.after.safe_bytes < (1 - TUNING.unused_share) * self.budget_bytes
        expensive = TUNING.cheap_share if leaves_room else TUNING.expensive_share
        if self.simulator.compiled or best.extra_us <= expensive * problem.total_us:
            return best
        for share in TUNING.between:
            target_bytes = int(lowest + share * (highest - lowest))
            solution = self.targets.find(target_bytes, best.solution, lower_targets=0)
            if solution is None or not solution.within or solution.profile.extra_us >= best.extra_us:
                continue
            self.progress(Progress("tracing the planned step, with fewer copies"))
            attempt = self.simulator.simulate(solution, FIRM, self.budget_bytes)
            if attempt.fits(self.budget_bytes) and attempt.extra_us < best.extra_us:
                return attempt
        return best


def search_order(simulator: RewriteSimulator) -> Attempt:
    """Find a rewrite that only enforces the best order, with the concurrency whose peaks vary least.

    A strict order is not tried: it costs up to two thirds of the time, and the order alone is meant to cost nothing.
    """
    solution = find_schedule(simulator.problem, simulator.before.peak_bytes << 10)
    best = simulator.simulate(solution, LOOSE)
    if best.spread > TUNING.even_spread:
        firm = simulator.simulate(solution, FIRM)
        # A small difference is not worth the time that it costs.
        if firm.spread < best.spread - TUNING.even_spread:
            best = firm
    return best


def with_room(after: Tide, budget_bytes: int) -> Tide:
    """Return the tide with a promise that uses what the budget leaves, up to a share.

    A process whose limit is the budget does not run out of memory; the exact peaks of its steps are less certain.
    """
    roomy = int(after.peak_bytes * (1.0 + TUNING.room_share)) + SAFE_BYTES
    return dataclasses.replace(after, safe_bytes=max(after.safe_bytes, min(roomy, budget_bytes)))


def lazy_frontier(
    problem: PlanningProblem,
    attempt: Attempt,
    plain_bytes: int,
    checked_bytes: int,
    checked_slowdown: float = math.inf,
) -> LazyFrontier:
    """Return what the plain step takes, `plain_bytes`, and estimates of what smaller budgets would cost.

    They are scaled by what an attempt showed: the ratio of its safe bound to its planned peak, and the time that its
    order costs. The search has found nothing faster than `checked_slowdown` within `checked_bytes`, so estimates that
    promise it are left out.
    """
    # A plan may live long: the frontier keeps the problem, and nothing else of the search.
    factor = attempt.after.safe_bytes / max(attempt.solution.profile.peak_bytes, 1)
    order_us = attempt.extra_us - attempt.solution.profile.extra_us

    def find() -> tuple[FrontierPoint, ...]:
        points = [FrontierPoint(plain_bytes, 0.0, 0)]
        for planned_bytes, extra_us, count in frontier(problem):
            peak_bytes, slowdown = int(planned_bytes * factor), (extra_us + order_us) / max(problem.total_us, 1e-9)
            is_refuted = peak_bytes <= checked_bytes and slowdown <= checked_slowdown
            if count > 0 and peak_bytes < plain_bytes and not is_refuted:
                points.append(FrontierPoint(peak_bytes, slowdown, count, is_estimate=True))
        return tuple(points)

    return LazyFrontier(find)
