"""A course that is being worked on: what it says of a change is what measuring the changed course says."""

import random

import numpy as np
import pytest

from lowtide.planning.problem import measure
from lowtide.planning.remat.schedule_state import Draft
from tests.unit.problems import make_problem, random_problem


def random_change(draft, draw):
    tasks = draw.sample(range(draft.never - 1), draw.choice((1, 1, 2, 4)))
    return {task: draw.choice((draft.never, draw.randrange(task + 1, draft.never))) for task in tasks}


@pytest.mark.parametrize("seed", range(12))
def test_changes_agree_with_measuring(seed):
    draw = random.Random(seed)
    problem = random_problem(seed)
    draft = Draft(problem, budget_bytes=150)
    for _ in range(40):
        change = random_change(draft, draw)
        effect, area, cost = draft.effect(change), draft.area, draft.cost_us
        draft.commit(change)
        flood = measure(problem, draft.course())
        assert draft.in_use.tolist() == flood.bytes_in_use.tolist()
        assert draft.area == np.maximum(flood.bytes_in_use - 150, 0).sum() == area + effect.area
        assert draft.cost_us == pytest.approx(flood.extra_us) == pytest.approx(cost + effect.cost_us)


def test_many_copies_at_once():
    text = "\n".join(["v0 = () 10"] + [f"v{i} = (v{i - 1}) {10 + i}" for i in range(1, 40)] + ["z = (v0, v20, v39) 5"])
    problem = make_problem(text)
    draft = Draft(problem, 0)
    draft.commit(dict.fromkeys(range(1, 35), 40))
    flood = measure(problem, draft.course())
    assert draft.in_use.tolist() == flood.bytes_in_use.tolist()
    assert draft.recomputed() == list(range(1, 35))


def test_a_course_has_every_task_once_and_copies_before_their_slot():
    draft = Draft(make_problem("a = () 10\n b = (a) 10\n c = (b) 10\n d = (a, b) 10"), 0)
    draft.commit({0: 3, 1: 3})
    assert draft.course() == [0, 1, 2, ~0, ~1, 3]
    draft.commit({0: 2, 1: draft.never})
    assert draft.course() == [0, 1, ~0, 2, 3]


def test_no_tasks():
    draft = Draft(make_problem("", base_bytes=70), 50)
    assert draft.peak_bytes == 70
    assert draft.course() == []
