"""One search after another: the schedule that is found for each target, and which searches are not repeated."""

import pytest

from lowtide.planning.problem import PlanningProblem
from lowtide.planning.remat import target_search
from lowtide.planning.remat.target_search import TargetSearch

LAYERS = 8


def chain() -> PlanningProblem:
    """Layers that each make one value, and a backward pass that needs them the other way round."""
    count = 2 * LAYERS
    forward = [(layer - 1,) if layer else () for layer in range(LAYERS)]
    backward = [(LAYERS - 1 - step, LAYERS - 1 + step) for step in range(LAYERS)]
    return PlanningProblem(
        reads=[*forward, (LAYERS - 1,), *backward[1:]],
        makes=[(task,) for task in range(count)],
        reuses=[()] * count,
        cost_us=[10.0] * count,
        workspace=[0] * count,
        can_remat=[True] * LAYERS + [False] * LAYERS,
        sizes=[100] * count,
        lasting=[False] * (count - 1) + [True],
        total_us=10.0 * count,
    )


@pytest.fixture
def searches(monkeypatch):
    """The budgets that were searched for."""
    budgets = []
    search = target_search.find_schedule

    def record_call(problem, budget_bytes, *arguments, **named):
        budgets.append(budget_bytes)
        return search(problem, budget_bytes, *arguments, **named)

    monkeypatch.setattr(target_search, "find_schedule", record_call)
    return budgets


def test_a_schedule_is_found_once():
    targets = TargetSearch(chain())
    first = targets.find(700)
    assert first.within
    assert first.profile.peak_bytes <= 700
    # It comes up again for the same target_bytes, so a lower one is taken; without lower targets there is nothing new.
    assert targets.find(700, lower_targets=0) is None
    second = targets.find(700)
    assert second.profile.peak_bytes < first.profile.peak_bytes
    assert second.profile.extra_us >= first.profile.extra_us


def test_a_schedule_that_was_put_back_is_found_again():
    targets = TargetSearch(chain())
    solution = targets.find(700)
    targets.allow_again(solution)
    assert targets.find(700).schedule == solution.schedule


def test_no_search_below_the_lowest_schedule(searches):
    targets = TargetSearch(chain())
    lowest = targets.find(150)
    assert not lowest.within
    # Nothing was found for 150 bytes, so the lowest possible target was tried too.
    assert searches == [150, targets.problem.base_bytes]
    assert targets.find(120) is None
    targets.allow_again(lowest)
    assert targets.find(120) is lowest
    assert len(searches) == 2
    # Above it there may be one.
    assert targets.find(lowest.profile.peak_bytes + 100).within
    assert len(searches) > 2
