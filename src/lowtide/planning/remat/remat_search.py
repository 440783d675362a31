"""The remat search: which tasks to rematerialize so that a step keeps a memory budget at the least cost.

Greedy searches start from the plain schedule and from checkpointed schedules, which no single move reaches. The best
result is improved further: some rematerializations are removed and the greedy search runs again. Effort is counted in
changes that were evaluated, not in seconds, so the result is the same on every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from lowtide.planning.memory_profile import MemoryProfile, profile_schedule
from lowtide.planning.problem import Instance, PlanningProblem
from lowtide.planning.remat.candidate_moves import removal
from lowtide.planning.remat.checkpoints import segments, square_root, turning_point
from lowtide.planning.remat.greedy_search import GreedySearch
from lowtide.planning.remat.schedule_state import ScheduleState
from lowtide.planning.tuning import TUNING

# Receives the share of the work that is done, from 0 to 1.
ReportShare = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class RematTask:
    """A task that is rematerialized."""

    task: int
    saves_bytes: int
    """The size of its values, which are not kept meanwhile."""
    cost_us: float


@dataclass(frozen=True, slots=True)
class RematSolution:
    """The schedule that a search found."""

    schedule: list[Instance]
    profile: MemoryProfile
    remats: tuple[RematTask, ...]
    within: bool
    """Whether it keeps the budget; if not, it is the lowest schedule that was found."""
    slots: list[int] = field(default_factory=list)
    """The slot of each task, as in a `ScheduleState`."""
    tried: int = 0
    """How many changes were evaluated to find it."""


def find_schedule(
    problem: PlanningProblem,
    budget_bytes: int,
    report: ReportShare | None = None,
    effort: int = TUNING.remat_effort,
    start: RematSolution | None = None,
) -> RematSolution:
    """Find the cheapest schedule that keeps a budget; if there is none, the one with the smallest peak.

    `start` is the solution of a similar budget to start from.
    """
    state = ScheduleState(problem, budget_bytes)
    if state.area:
        _RematSearch(state, report or (lambda share: None), effort).run(start.slots if start else None)
    profile = profile_schedule(problem, schedule := state.schedule())
    remats = tuple(
        RematTask(task, sum(problem.sizes[value] for value in problem.makes[task]), problem.cost_us[task])
        for task in state.remat_tasks()
    )
    within = max(profile.peak_bytes, problem.base_bytes) <= budget_bytes
    return RematSolution(schedule, profile, remats, within, state.slots, state.tried)


def frontier(problem: PlanningProblem) -> list[tuple[int, float, int]]:
    """Return what other budgets cost, from the plain peak down: (peak bytes, extra microseconds, rematerialized tasks).

    This is one greedy search: each point continues from the one before.
    """
    state = ScheduleState(problem, 0)
    greedy = GreedySearch(state, random.Random(0))
    greedy.tried_limit = TUNING.remat_lowest_effort
    found = [(state.peak_bytes, 0.0, 0)]
    plain, least, points = state.peak_bytes, _lower_bound(problem), TUNING.frontier_points
    for step in range(1, points):
        state.set_budget(plain - (plain - least) * step // (points - 1))
        within = greedy.descend()
        greedy.prune()
        if state.peak_bytes < found[-1][0]:
            found.append((state.peak_bytes, state.cost_us, len(state.remat_tasks())))
        if not within:
            break
    return found


def _lower_bound(problem: PlanningProblem) -> int:
    """Return a lower bound of every schedule's peak: what the most demanding task needs at once."""
    needs = []
    for task, workspace in enumerate(problem.workspace):
        own = {*problem.reads[task], *problem.makes[task]} - {made for made, _ in problem.reuses[task]}
        needs.append(workspace + sum(problem.sizes[value] for value in own))
    return problem.base_bytes + max(needs, default=0)


class _RematSearch:
    """Searches from a state above its budget for the cheapest one within it."""

    def __init__(self, state: ScheduleState, report: ReportShare, effort: int) -> None:
        self.state = state
        self.effort = effort
        self.report = report
        self.share = 0.0
        self.goal = effort
        self.rng = random.Random(0)
        self.greedy = GreedySearch(state, self.rng, self._report_share)

    def run(self, start: list[int] | None = None) -> None:
        """Find the cheapest schedule, or the lowest."""
        self._set_effort(self.effort + TUNING.remat_descent_effort)
        if not self._find_start(start):
            self._set_effort(self.state.tried + TUNING.remat_lowest_effort)
            self._minimize_peak_from_starts()
        if not self.state.area:
            self._set_effort(self.state.tried + self.effort, self.effort)
            self._improve()

    def _set_effort(self, tried: int, about: int | None = None) -> None:
        """Stop after `tried` evaluated changes; progress is reported as a share of `about`."""
        self.greedy.tried_limit = tried
        self.goal = about or tried

    def _report_share(self) -> None:
        """Report the share of the work that is done; it never decreases."""
        self.share = max(self.share, min(1.0, self.state.tried / max(self.goal, 1)))
        self.report(self.share)

    def _find_start(self, start: list[int] | None) -> bool:
        """Descend from several starts to the cheapest result within the budget; if there is none, to the lowest."""
        state = self.state
        plain = lowest = state.snapshot()
        best: ScheduleState | None = None
        for slots, stages in self._starts(start):
            state.restore(plain)
            if slots is None:
                within = self.greedy.descend_in_stages(stages)
            else:
                more = TUNING.remat_checkpoint_effort + TUNING.remat_effort_per_task * len(state.problem)
                self._set_effort(state.tried + more, self.goal)
                state.reset(slots)
                if state.peak_bytes < lowest.peak_bytes:
                    lowest = state.snapshot()
                within = self.greedy.descend(best.cost_us if best else math.inf)
                self.greedy.prune()
            if within and (best is None or state.cost_us < best.cost_us):
                best = state.snapshot()
            elif state.peak_bytes < lowest.peak_bytes:
                lowest = state.snapshot()
            self._report_share()
        state.restore(best or lowest)
        return best is not None

    def _starts(self, start: list[int] | None) -> Iterator[tuple[list[int] | None, int]]:
        """Yield slots to start from and the stages of a greedy search, most promising first, while effort is left."""
        checkpoints = self._checkpoints()
        if start is not None:
            yield start, 1
        if start is None or self.state.area:
            yield None, TUNING.remat_stages[0]
            yield next(checkpoints), 1
        for stages in TUNING.remat_stages[1:]:
            if self._has_effort(TUNING.remat_descent_per_task * len(self.state.problem)):
                yield None, stages
        while self._has_effort(0) and (slots := next(checkpoints, None)) is not None:
            yield slots, 1

    def _checkpoints(self) -> Iterator[list[int]]:
        """Yield checkpointed schedules: first with as many segments as the square-root rule, then more and fewer."""
        problem = self.state.problem
        turn, root = turning_point(problem), square_root(problem)
        for count in sorted(range(1, max(3 * root, 2)), key=lambda count: abs(math.log(count / root))):
            yield segments(problem, count, turn)

    def _has_effort(self, more: int) -> bool:
        """Whether `more` changes may still be evaluated for another start."""
        return self.state.tried + more < TUNING.remat_start_share * self.effort

    def _improve(self) -> None:
        """Remove some rematerializations and descend again; accept what is cheaper, or at first slightly dearer."""
        state, greedy = self.state, self.greedy
        best = current = state.snapshot()
        failures = 0
        patience = min(TUNING.remat_most_patience, TUNING.remat_patience * sum(state.problem.can_remat))
        while state.tried < self.effort and failures < patience and (tasks := state.remat_tasks()):
            self._report_share()
            removed = self._choose_removed(tasks)
            for task in removed:
                if state.slots[task] < state.no_slot:
                    state.commit(removal(state, task))
            nearby = self._neighborhood(removed)
            banned = removed if self.rng.random() < TUNING.remat_ban_share else ()
            if self.rng.random() < TUNING.remat_restart_share and len(nearby) == len(state.problem):
                state.reset([state.no_slot] * state.no_slot)
            limit_us = best.cost_us * TUNING.remat_cost_limit
            if greedy.descend(limit_us, nearby, banned, self.rng.choice(TUNING.remat_noises)):
                greedy.prune(nearby, TUNING.remat_noises[0])
            failures += 1
            warmth = TUNING.remat_warmth * (1 - state.tried / self.effort) * self.rng.random()
            if state.area or state.cost_us > current.cost_us * (1 + warmth):
                state.restore(current)
                continue
            current = state.snapshot()
            if current.cost_us < best.cost_us:
                best, failures = current, 0
        state.restore(best)

    def _choose_removed(self, tasks: list[int]) -> list[int]:
        """Choose rematerializations to remove: adjacent ones, or any, expensive ones with a higher probability."""
        rng, costs = self.rng, self.state.problem.cost_us
        count = min(len(tasks), 1 + int(rng.expovariate(1 / TUNING.remat_removed)))
        if rng.random() < TUNING.remat_adjacent_share:
            first = rng.randrange(len(tasks) - count + 1)
            return tasks[first : first + count]
        power = rng.choice((0.0, 0.5, 1.0))
        least = self.greedy.least_us
        return sorted(tasks, key=lambda task: rng.expovariate(max(costs[task], least) ** power))[:count]

    def _neighborhood(self, tasks: list[int]) -> Collection[int]:
        """Return the tasks to try instead: all of a small graph; else the tasks nearby, and some random ones."""
        count = len(self.state.problem)
        if count <= 2 * TUNING.remat_neighborhood:
            return range(count)
        reach = TUNING.remat_neighborhood // (2 * len(tasks))
        near = {each for task in tasks for each in range(max(0, task - reach), min(count, task + reach + 1))}
        return sorted(near.union(self.rng.sample(range(count), TUNING.remat_neighborhood)))

    def _minimize_peak_from_starts(self) -> None:
        """Find the lowest schedule from several starts, which lead to different results."""
        state = self.state
        self._minimize_peak()
        lowest = state.snapshot()
        for slots in self._checkpoints():
            if not state.area or self.greedy.exhausted:
                break
            state.reset(slots)
            self._minimize_peak()
            if (state.peak_bytes, state.cost_us) < (lowest.peak_bytes, lowest.cost_us):
                lowest = state.snapshot()
        state.restore(lowest)

    def _minimize_peak(self) -> None:
        """Find a low schedule by bisection between a peak that is reached and one that is not."""
        state, greedy = self.state, self.greedy
        budget = state.budget_bytes
        best, missed = state.snapshot(), max(_lower_bound(state.problem) - 1, budget)
        for _ in range(TUNING.remat_halvings):
            if greedy.exhausted or best.peak_bytes - missed < TUNING.remat_close_share * best.peak_bytes:
                break
            goal = (best.peak_bytes + missed) // 2
            for attempt in range(TUNING.remat_attempts):
                state.restore(best)
                state.set_budget(goal)
                within = greedy.descend(noise=TUNING.remat_noises[0] if attempt else 0.0)
                if state.peak_bytes < best.peak_bytes:
                    best = state.snapshot()
                if within:
                    break
            else:
                missed = goal
        state.restore(best)
        state.set_budget(max(best.peak_bytes, budget))
        greedy.prune()
        state.set_budget(budget)
