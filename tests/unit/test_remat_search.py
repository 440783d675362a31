"""The search for what to compute again."""

import numpy as np
import pytest

from lowtide.planning.memory_profile import profile_schedule
from lowtide.planning.remat.checkpoints import segments, square_root, turning_point
from lowtide.planning.remat.remat_search import RematTask, find_schedule, frontier
from lowtide.planning.remat.schedule_state import ScheduleState
from tests.unit.problems import THREE_LAYERS, make_problem, random_problem


def found(text, budget_bytes, base_bytes=0):
    solution = find_schedule(make_problem(text, base_bytes), budget_bytes)
    return solution.schedule, solution.profile.peak_bytes, solution.profile.extra_us, solution.within


def test_a_budget_that_already_holds_changes_nothing():
    assert found(THREE_LAYERS, 310) == ([0, 1, 2, 3, 4, 5], 310, 0, True)


def test_the_cheapest_that_is_enough():
    # b and a would both do for 300 bytes; a alone does for less.
    assert found(THREE_LAYERS, 300) == ([0, 1, 2, 3, ~1, 4, 5], 300, 20, True)
    assert found(THREE_LAYERS, 299) == ([0, 1, 2, 3, 4, ~0, 5], 210, 30, True)


def test_memory_that_is_held_throughout_is_part_of_the_budget():
    assert found(THREE_LAYERS, 1300, base_bytes=1000) == ([0, 1, 2, 3, ~1, 4, 5], 1300, 20, True)


def test_where_nothing_reaches_the_budget_the_lowest_is_returned():
    assert found(THREE_LAYERS, 150) == ([0, 1, 2, 3, 4, ~0, 5], 210, 30, False)


def test_what_is_saved_and_what_it_costs():
    solution = find_schedule(make_problem(THREE_LAYERS), 250)
    assert solution.remats == (RematTask(0, saves_bytes=100, cost_us=30.0),)


def test_stateful_tasks_do_not_run_twice():
    text = THREE_LAYERS.replace("us=30", "us=30 fixed")
    assert found(text, 299) == ([0, 1, 2, 3, ~1, 4, 5], 300, 20, False)


def test_a_task_without_inputs_needs_nothing():
    # x is cheap, but it reads a, which would have to be held or made again with it.
    text = """
        a = () 100 us=1
        x = (a) 100 us=1
        y = (x) 100 us=50
        z = () 200
        u = (z, y) 10
        v = (u, x) 10
    """
    # Plain: 100, 200, 200, 400, 410, 120.
    assert found(text, 310) == ([0, 1, 2, 3, 4, ~0, ~1, 5], 310, 2, True)


def test_an_expensive_input_is_held_where_there_is_room():
    # a is expensive and small, so it stays for the copy of x.
    text = """
        a = () 20 us=100
        x = (a) 100 us=1
        y = (x) 100 us=50
        z = () 200
        u = (z, y) 10
        v = (u, x) 10
    """
    # Plain: 20, 120, 200, 400, 410, 120.
    assert found(text, 330) == ([0, 1, 2, 3, 4, ~1, 5], 330, 1, True)


def test_a_result_without_readers_is_not_rematerialized():
    text = "a = () 100 lasts\n b = () 100\n c = (b) 50"
    assert found(text, 200) == ([0, 1, 2], 250, 0, False)


def test_workspace_counts():
    # The copy of b would borrow 200 bytes where there is no room for them.
    assert found(THREE_LAYERS.replace("us=20", "us=20 work=90"), 300) == ([0, 1, 2, 3, ~1, 4, 5], 300, 20, True)
    assert found(THREE_LAYERS.replace("us=20", "us=20 work=95"), 300) == ([0, 1, 2, 3, 4, ~0, 5], 295, 30, True)


def test_in_place():
    # Once a is not held for da, b takes its place.
    text = THREE_LAYERS.replace("b = (a) 100 us=20", "b = (a) 100 us=20 takes=a")
    assert found(text, 250) == ([0, 1, 2, 3, 4, ~0, 5], 210, 30, True)
    assert profile_schedule(make_problem(text), [0, 1, 2, 3, 4, ~0, 5]).bytes_in_use.tolist() == [
        100,
        100,
        200,
        210,
        120,
        110,
        120,
    ]


def layers(count):
    """Layers of 100 bytes and 10 microseconds; their gradients take 1 byte."""
    lines = ["f0 = () 100"] + [f"f{i} = (f{i - 1}) 100" for i in range(1, count)]
    lines += [f"g{count - 1} = (f{count - 1}) 1 fixed"]
    lines += [f"g{i} = (g{i + 1}, f{i}) 1 fixed" for i in reversed(range(count - 1))]
    return "\n".join(lines)


def test_square_root_checkpoints():
    problem = make_problem(layers(9))
    assert (turning_point(problem), square_root(problem)) == (9, 3)
    state = ScheduleState(problem, 0)
    state.reset(segments(problem, 3, 9))
    # Two layers are held, with the last, which is read at once.
    assert state.remat_tasks() == [0, 1, 3, 4, 6, 7]
    assert state.schedule() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ~6, ~7, 10, 11, 12, ~3, ~4, 13, 14, 15, ~0, ~1, 16, 17]


def test_chains_of_equal_layers():
    # Nine layers: 901 bytes. Each that is not held saves 100 and costs 10, as long as there is room to make it again.
    costs = [find_schedule(make_problem(layers(9)), 100 * held + 2).profile.extra_us for held in (9, 8, 7, 6, 5)]
    assert costs == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("count", [9, 16])
def test_schedules_are_never_worse_than_square_root_checkpoints(count):
    problem = make_problem(layers(count))
    state = ScheduleState(problem, 0)
    state.reset(segments(problem, square_root(problem), turning_point(problem)))
    solution = find_schedule(problem, state.peak_bytes)
    assert solution.within
    assert solution.profile.extra_us <= state.cost_us


@pytest.mark.parametrize("seed", range(10))
def test_every_answer_is_a_valid_schedule(seed):
    problem = random_problem(seed)
    plain = profile_schedule(problem, range(len(problem))).peak_bytes
    for share in (0.9, 0.6, 0.1):
        budget = int(plain * share)
        solution = find_schedule(problem, budget)
        assert [instance for instance in solution.schedule if instance >= 0] == list(range(len(problem)))
        again = [~instance for instance in solution.schedule if instance < 0]
        assert len(set(again)) == len(again)
        assert all(problem.can_remat[task] for task in again)
        assert sorted(again) == [each.task for each in solution.remats]
        profile = profile_schedule(problem, solution.schedule)
        assert np.array_equal(profile.bytes_in_use, solution.profile.bytes_in_use)
        assert profile.extra_us == pytest.approx(sum(each.cost_us for each in solution.remats))
        assert solution.within == (profile.peak_bytes <= budget)
        assert profile.peak_bytes <= plain


def test_the_same_answer_every_time():
    problem = random_problem(3, tasks=30)
    assert find_schedule(problem, 200).schedule == find_schedule(problem, 200).schedule


def test_progress_goes_from_0_to_1():
    shares = []
    find_schedule(make_problem(layers(12)), 700, shares.append)
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1


def test_frontier():
    points = frontier(make_problem(layers(9)))
    assert points[0] == (901, 0.0, 0)
    peaks, costs, _ = zip(*points, strict=True)
    assert list(peaks) == sorted(peaks, reverse=True)
    assert list(costs) == sorted(costs)
    assert peaks[-1] <= 502


def test_frontier_of_what_cannot_be_lowered():
    assert frontier(make_problem("a = () 100\n b = (a) 100")) == [(200, 0.0, 0)]


def test_a_problem_without_tasks():
    solution = find_schedule(make_problem("", base_bytes=70), 50)
    assert (solution.schedule, solution.within) == ([], False)
    assert frontier(make_problem("", base_bytes=70)) == [(70, 0.0, 0)]


def towers(count, depth):
    """Towers of layers beside each other on one input, their sum, and the way back through each of them."""
    tops = [f"t{tower}_{depth - 1}" for tower in range(count)]
    lines = ["x = () 100"]
    for tower in range(count):
        lines += [f"t{tower}_{i} = ({f't{tower}_{i - 1}' if i else 'x'}) 100" for i in range(depth)]
    lines.append(f"loss = ({', '.join(tops)}) 1 fixed")
    for tower in range(count):
        back = ["loss", *(f"g{tower}_{i}" for i in reversed(range(depth)))]
        lines += [f"{back[j + 1]} = ({back[j]}, t{tower}_{depth - 1 - j}) 1 fixed" for j in range(depth)]
    return "\n".join(lines)


@pytest.mark.parametrize("text", [layers(300), towers(60, 5)], ids=["deep", "wide"])
def test_the_work_is_bounded_and_a_plan_is_still_found(text):
    problem = make_problem(text)
    plain = profile_schedule(problem, range(len(problem))).peak_bytes
    solution = find_schedule(problem, int(plain * 0.55), effort=500)
    assert solution.within
    # A share of the forward pass is computed again, not all of it.
    assert solution.profile.extra_us < 0.7 * sum(np.compress(problem.can_remat, problem.cost_us))
    assert solution.tried <= 40_000 + 20_000 + (4 + 1) * len(problem) + 2 * 500


def test_the_search_for_an_unreachable_budget_is_bounded():
    problem = make_problem(layers(100))
    solution = find_schedule(problem, 1, effort=500)
    assert not solution.within
    assert solution.profile.peak_bytes < 0.3 * profile_schedule(problem, range(len(problem))).peak_bytes
    assert solution.tried <= 40_000 + 20_000 + 60_000 + (4 + 1) * len(problem) + 2 * 500


def test_a_search_that_continues_from_a_solution_is_short_and_no_worse():
    problem = make_problem(layers(200))
    first = find_schedule(problem, 15_000, effort=500)
    again = find_schedule(problem, 14_000, effort=500, start=first)
    afresh = find_schedule(problem, 14_000, effort=500)
    assert again.within
    assert again.profile.extra_us <= afresh.profile.extra_us * 1.05
    assert again.tried < afresh.tried
