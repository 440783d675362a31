"""The search for a plan in an allocator whose overhead is given, and the estimates of what other budgets would cost."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lowtide.planning.plan import NoPlanError
from lowtide.planning.plan_search import Attempt, lazy_frontier, search_plan
from lowtide.planning.problem import PlanningProblem
from lowtide.planning.remat.remat_search import find_schedule, frontier
from lowtide.planning.rewrite.rewrite import Rewrite
from tests.plans import make_plan
from tests.unit.test_target_search import chain


def attempt_at(problem: PlanningProblem, budget_bytes: int, safe_bytes: int, order_us: float) -> Attempt:
    """An attempt whose simulation showed this bound, and whose order costs some time."""
    solution = find_schedule(problem, budget_bytes)
    after = replace(make_plan().after, safe_bytes=safe_bytes)
    return Attempt(solution, Rewrite(), after, 0, solution.profile.extra_us + order_us, 0.0, None)


def test_estimates_are_scaled_by_what_the_attempt_showed():
    problem = chain()
    attempt = attempt_at(problem, 700, safe_bytes=1400, order_us=16.0)
    plain, *points = lazy_frontier(problem, attempt, plain_bytes=10_000, checked_bytes=0)
    planned = frontier(problem)[1:]
    factor = 1400 / attempt.solution.profile.peak_bytes
    assert (plain.peak_bytes, plain.slowdown, plain.is_estimate) == (10_000, 0.0, False)
    assert [point.peak_bytes for point in points] == [int(peak * factor) for peak, _, _ in planned]
    assert all(point.is_estimate for point in points)
    # The plain step needs no order; the others take 16 us more than their copies, of 160 us.
    assert [point.slowdown for point in points] == [(extra + 16.0) / 160.0 for _, extra, _ in planned]


def test_an_estimate_above_the_plain_step_is_left_out():
    problem = chain()
    attempt = attempt_at(problem, 700, safe_bytes=1400, order_us=0.0)
    every = lazy_frontier(problem, attempt, plain_bytes=10_000, checked_bytes=0)
    plain, *points = lazy_frontier(problem, attempt, every[2].peak_bytes, checked_bytes=0)
    assert plain.peak_bytes == every[2].peak_bytes
    assert points == [point for point in every[1:] if point.peak_bytes < plain.peak_bytes]


def test_an_estimate_that_the_search_has_refuted_is_left_out():
    problem = chain()
    attempt = attempt_at(problem, 700, safe_bytes=1400, order_us=0.0)
    every = lazy_frontier(problem, attempt, plain_bytes=10_000, checked_bytes=0)
    middle = every[len(every) // 2]
    # The plan takes these bytes and is this slow: what takes no more must be slower.
    points = lazy_frontier(problem, attempt, 10_000, middle.peak_bytes, middle.slowdown)
    assert middle not in points
    assert all(point.peak_bytes > middle.peak_bytes or point.slowdown > middle.slowdown for point in points)
    assert len(points) == len(every) - 1
    # Without a plan within these bytes, no estimate below them is shown.
    points = lazy_frontier(problem, attempt, 10_000, middle.peak_bytes)
    assert all(point.peak_bytes > middle.peak_bytes for point in points)


class Allocator:
    """Rewrites of the chain, with the safe bound of each schedule by its planned peak."""

    compiled = False

    def __init__(self, safe_bytes: Mapping[int, int]) -> None:
        self.problem = chain()
        self.before = replace(make_plan().before, safe_bytes=safe_bytes[900])
        self.safe_bytes = safe_bytes
        self.simulated: list[int] = []

    def room(self, budget_bytes: int) -> int:
        return budget_bytes

    def simulate(self, solution, concurrency, budget_bytes=None) -> Attempt:
        peak_bytes = solution.profile.peak_bytes
        self.simulated.append(peak_bytes)
        after = replace(make_plan().after, safe_bytes=self.safe_bytes[peak_bytes])
        return Attempt(solution, Rewrite(), after, after.safe_bytes, solution.profile.extra_us, 0.0, None)


def test_a_schedule_between_those_that_missed_narrowly_is_found():
    allocator = Allocator({500: 870, 600: 860, 700: 800, 800: 1000, 900: 1200})
    attempt = search_plan(allocator, 800, lambda progress: None)
    assert attempt.solution.profile.peak_bytes == 700
    # The search by targets had missed it: it starts below and goes down.
    assert allocator.simulated.index(500) < allocator.simulated.index(700)


def test_schedules_between_are_not_tried_where_the_budget_is_far():
    allocator = Allocator({500: 890, 600: 900, 700: 800, 800: 1000, 900: 1200})
    with pytest.raises(NoPlanError):
        search_plan(allocator, 800, lambda progress: None)
    assert 700 not in allocator.simulated
