"""The estimates of a plan search: what other budgets would cost."""

from dataclasses import replace

from lowtide.planning.plan_search import Attempt, lazy_frontier
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
    points = lazy_frontier(problem, attempt, checked_bytes=0)
    planned = frontier(problem)
    factor = 1400 / attempt.solution.profile.peak_bytes
    assert [point.peak_bytes for point in points] == [int(peak * factor) for peak, _, _ in planned]
    assert all(point.is_estimate for point in points)
    # The plain step needs no order; the others take 16 us more than their copies, of 160 us.
    assert [point.slowdown for point in points] == [0.0, *((extra + 16.0) / 160.0 for _, extra, _ in planned[1:])]


def test_an_estimate_that_the_search_has_refuted_is_left_out():
    problem = chain()
    attempt = attempt_at(problem, 700, safe_bytes=1400, order_us=0.0)
    every = lazy_frontier(problem, attempt, checked_bytes=0)
    middle = every[len(every) // 2]
    # The plan takes these bytes and is this slow: what takes no more must be slower.
    points = lazy_frontier(problem, attempt, middle.peak_bytes, middle.slowdown)
    assert middle not in points
    assert all(point.peak_bytes > middle.peak_bytes or point.slowdown > middle.slowdown for point in points)
    assert len(points) == len(every) - 1
    # Without a plan within these bytes, no estimate below them is shown.
    assert all(point.peak_bytes > middle.peak_bytes for point in lazy_frontier(problem, attempt, middle.peak_bytes))
