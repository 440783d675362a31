"""How many tasks of a schedule may be under way at once: exact counts, and no execution above the limit."""

import dataclasses
import random

import pytest

from lowtide.planning.memory_profile import profile_schedule
from lowtide.planning.problem import PlanningProblem
from lowtide.planning.rewrite.ancestors import Ancestors
from lowtide.planning.rewrite.concurrency import FIRM, LOOSE, NONE, ordering_cost_us, running_limits


def make_problem(reads, sizes, workspace=None):
    """Each task makes one value of its own number and reads some others'."""
    count = len(reads)
    return PlanningProblem(
        reads=[tuple(each) for each in reads],
        makes=[(task,) for task in range(count)],
        reuses=[()] * count,
        cost_us=[1.0] * count,
        workspace=workspace or [0] * count,
        can_remat=[True] * count,
        sizes=list(sizes),
        lasting=[False] * count,
        total_us=float(count),
    )


def ancestors_of(problem):
    return Ancestors(range(len(problem)), dict(enumerate(problem.reads)))


# A trunk (0, 2, 4) that each time leaves something for a branch (1, 3), all gathered at the end (5).
TRUNK = make_problem([[], [0], [0], [2], [2], [1, 3, 4]], [4, 1, 4, 1, 4, 1])


def test_without_concurrency_tasks_run_one_after_the_other():
    assert running_limits(TRUNK, range(6), NONE, ancestors_of(TRUNK)) == [1] * 6


def test_a_task_that_waits_anyway_takes_no_slot():
    """The limit is 9.5. No task runs beside 0, and 2 may run beside 1; all of 1, 2 and 3 at once would be 10."""
    assert profile_schedule(TRUNK, range(6)).bytes_in_use.tolist() == [4, 5, 9, 6, 10, 7]
    tight = dataclasses.replace(FIRM, share=0.95)
    assert running_limits(TRUNK, range(6), tight, ancestors_of(TRUNK)) == [1, 2, 3, 2, 1, 6]
    assert running_limits(TRUNK, range(6), tight) == [1, 2, 3, 1, 1, 1]


def test_some_tasks_may_always_be_running():
    problem = make_problem([[], [], [], []], [10, 10, 10, 10])
    assert running_limits(problem, range(4), FIRM) == [1, 1, 1, 1]
    assert running_limits(problem, range(4), LOOSE) == [1, 2, 3, 3]


def test_an_exclusive_task_costs_time():
    problem = make_problem([[], [], []], [10, 10, 10])
    assert ordering_cost_us(problem, range(3), [1, 2, 3], []) < ordering_cost_us(problem, range(3), [1, 1, 1], [])
    assert ordering_cost_us(problem, range(3), [1, 2, 3], [("slot", (1000, 1000))]) > ordering_cost_us(
        problem, range(3), [1, 2, 3], []
    )


@pytest.mark.parametrize("seed", range(40))
def test_concurrent_tasks_stay_below_the_limit(seed):
    rng = random.Random(seed)
    count = 40
    reads = [[other for other in range(max(task - 9, 0), task) if rng.random() < 0.15] for task in range(count)]
    problem = make_problem(reads, [rng.choice((1, 5, 20)) for _ in reads], [rng.choice((0, 0, 30)) for _ in reads])
    # A value without readers is freed at once; here every value has a reader.
    concurrency = dataclasses.replace(FIRM, share=rng.choice((0.5, 0.8, 0.97, 1.2)))
    counts = running_limits(problem, range(count), concurrency, ancestors_of(problem))
    peak = profile_schedule(problem, range(count)).peak_bytes
    for _ in range(30):
        assert highest_in_use(problem, counts, rng) <= max(peak, concurrency.share * peak)


def highest_in_use(problem, counts, rng):
    """The most in use while tasks begin and end in any order that the counts allow."""
    count = len(problem)
    running, done = set(), set()
    readers = problem.readers
    highest = 0
    while len(done) < count:
        ready = [
            task
            for task in range(count)
            if task not in running
            and task not in done
            and done.issuperset(problem.reads[task])
            and done.issuperset(range(task - counts[task] + 1))
        ]
        if ready and (not running or rng.random() < 0.7):
            running.add(rng.choice(ready))
        else:
            task = rng.choice(sorted(running))
            running.discard(task)
            done.add(task)
        alive = [task for task in running | done if task in running or not done.issuperset(readers[task] or [task])]
        highest = max(
            highest, sum(problem.sizes[task] for task in alive) + sum(problem.workspace[task] for task in running)
        )
    return highest
