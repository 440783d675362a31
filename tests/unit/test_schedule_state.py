"""A schedule that is being worked on: what it says of a change is what measuring the changed schedule says."""

import random

import numpy as np
import pytest

from lowtide.planning.memory_profile import profile_schedule
from lowtide.planning.remat.schedule_state import ScheduleState
from tests.unit.problems import make_problem, random_problem


def random_change(state, draw):
    tasks = draw.sample(range(state.no_slot - 1), draw.choice((1, 1, 2, 4)))
    return {task: draw.choice((state.no_slot, draw.randrange(task + 1, state.no_slot))) for task in tasks}


@pytest.mark.parametrize("seed", range(12))
def test_changes_agree_with_measuring(seed):
    draw = random.Random(seed)
    problem = random_problem(seed)
    state = ScheduleState(problem, budget_bytes=150)
    for _ in range(40):
        change = random_change(state, draw)
        effect, area, cost = state.effect(change), state.area, state.cost_us
        state.commit(change)
        profile = profile_schedule(problem, state.schedule())
        assert state.in_use.tolist() == profile.bytes_in_use.tolist()
        assert state.area == np.maximum(profile.bytes_in_use - 150, 0).sum() == area + effect.area
        assert state.cost_us == pytest.approx(profile.extra_us) == pytest.approx(cost + effect.cost_us)


def test_many_copies_at_the_same_time():
    text = "\n".join(["v0 = () 10"] + [f"v{i} = (v{i - 1}) {10 + i}" for i in range(1, 40)] + ["z = (v0, v20, v39) 5"])
    problem = make_problem(text)
    state = ScheduleState(problem, 0)
    state.commit(dict.fromkeys(range(1, 35), 40))
    profile = profile_schedule(problem, state.schedule())
    assert state.in_use.tolist() == profile.bytes_in_use.tolist()
    assert state.remat_tasks() == list(range(1, 35))


def test_a_schedule_has_every_task_once_and_copies_before_their_slot():
    state = ScheduleState(make_problem("a = () 10\n b = (a) 10\n c = (b) 10\n d = (a, b) 10"), 0)
    state.commit({0: 3, 1: 3})
    assert state.schedule() == [0, 1, 2, ~0, ~1, 3]
    state.commit({0: 2, 1: state.no_slot})
    assert state.schedule() == [0, 1, ~0, 2, 3]


def test_no_tasks():
    state = ScheduleState(make_problem("", base_bytes=70), 50)
    assert state.peak_bytes == 70
    assert state.schedule() == []
