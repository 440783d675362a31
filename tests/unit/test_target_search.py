"""One search after another: what is found for an aim, and what is not looked for twice."""

import pytest

from lowtide.planning.problem import Problem
from lowtide.planning.remat import target_search as aim
from lowtide.planning.remat.target_search import Aims

LAYERS = 8


def chain() -> Problem:
    """Layers that each make one value, and a backward pass that needs them the other way round."""
    count = 2 * LAYERS
    forward = [(layer - 1,) if layer else () for layer in range(LAYERS)]
    backward = [(LAYERS - 1 - step, LAYERS - 1 + step) for step in range(LAYERS)]
    return Problem(
        reads=[*forward, (LAYERS - 1,), *backward[1:]],
        makes=[(task,) for task in range(count)],
        takes=[()] * count,
        cost_us=[10.0] * count,
        workspace=[0] * count,
        recomputable=[True] * LAYERS + [False] * LAYERS,
        sizes=[100] * count,
        lasting=[False] * (count - 1) + [True],
        total_us=10.0 * count,
    )


@pytest.fixture
def searches(monkeypatch):
    """The budgets that were searched for."""
    budgets = []
    search = aim.lower

    def heard(problem, budget_bytes, *arguments, **named):
        budgets.append(budget_bytes)
        return search(problem, budget_bytes, *arguments, **named)

    monkeypatch.setattr(aim, "lower", heard)
    return budgets


def test_a_course_is_found_once():
    aims = Aims(chain())
    first = aims.take(700)
    assert first.within
    assert first.flood.peak_bytes <= 700
    # It comes up again for the same aim, so a lower one is taken; without lower aims there is nothing new.
    assert aims.take(700, lower_aims=0) is None
    second = aims.take(700)
    assert second.flood.peak_bytes < first.flood.peak_bytes
    assert second.flood.extra_us >= first.flood.extra_us


def test_what_was_put_back_comes_up_again():
    aims = Aims(chain())
    answer = aims.take(700)
    aims.put_back(answer)
    assert aims.take(700).course == answer.course


def test_below_the_lowest_course_nobody_searches_again(searches):
    aims = Aims(chain())
    lowest = aims.take(150)
    assert not lowest.within
    assert searches == [150]
    assert aims.take(120) is None
    aims.put_back(lowest)
    assert aims.take(120) is lowest
    assert searches == [150]
    # Above it there may be one.
    assert aims.take(lowest.flood.peak_bytes + 100).within
    assert len(searches) > 1
