"""The problem of a step, and the memory of a schedule."""

import pytest

from lowtide.planning.memory_profile import profile_schedule
from lowtide.planning.problem import build_problem
from tests.unit.graphs import make_work
from tests.unit.problems import THREE_LAYERS, make_problem


def in_use(text, schedule, base_bytes=0):
    return profile_schedule(make_problem(text, base_bytes), schedule).bytes_in_use.tolist()


def test_a_plain_schedule():
    profile = profile_schedule(make_problem(THREE_LAYERS), range(6))
    assert profile.bytes_in_use.tolist() == [100, 200, 300, 310, 220, 120]
    assert profile.peak_bytes == 310
    assert profile.extra_us == 0


def test_memory_that_is_held_throughout_is_added_everywhere():
    assert in_use(THREE_LAYERS, range(6), base_bytes=1000) == [1100, 1200, 1300, 1310, 1220, 1120]


def test_a_rematerialized_value_is_not_held_in_between():
    profile = profile_schedule(make_problem(THREE_LAYERS), [0, 1, 2, 3, ~1, 4, 5])
    assert profile.bytes_in_use.tolist() == [100, 200, 300, 210, 210, 220, 120]
    assert profile.extra_us == 20


def test_a_copy_keeps_what_it_reads_alive():
    # a is read by the copy of b, so it lives as long as before; its own copy would come too late.
    assert in_use(THREE_LAYERS, [0, 1, 2, 3, ~0, ~1, 4, 5]) == [100, 200, 200, 110, 110, 210, 220, 120]
    assert in_use(THREE_LAYERS, [0, 1, 2, 3, ~1, 4, ~0, 5]) == [100, 200, 300, 210, 210, 120, 110, 120]


def test_a_value_must_be_in_memory_when_it_is_read():
    with pytest.raises(ValueError, match="task 1 reads a value that is not there at position 0"):
        profile_schedule(make_problem(THREE_LAYERS), [1, 0])


def test_a_value_without_readers():
    assert in_use("a = () 100\n b = () 50", [0, 1]) == [100, 50]


def test_a_result_stays():
    assert in_use("a = () 100 lasts\n b = (a) 50\n c = (b) 20", range(3)) == [100, 150, 170]


def test_the_newest_version_of_a_recomputed_result_is_kept():
    assert in_use("a = () 100 lasts\n b = () 50\n c = () 20", [0, 1, ~0, 2]) == [100, 50, 100, 120]


def test_temporary_memory_counts_while_the_task_runs():
    assert in_use("a = () 100 work=30\n b = (a) 50 work=7", [0, 1, ~0]) == [130, 157, 130]


def test_in_place():
    text = "a = () 100\n b = (a) 100 takes=a\n c = (b) 20"
    assert in_use(text, range(3)) == [100, 100, 120]


def test_an_update_is_in_place_only_if_no_other_task_needs_the_value():
    text = "a = () 100\n b = (a) 100 takes=a\n c = (a, b) 20"
    assert in_use(text, range(3)) == [100, 200, 220]
    # The copy of a is what c reads, so b takes the place of the first.
    assert in_use(text, [0, 1, ~0, 2]) == [100, 100, 200, 220]


def test_one_value_takes_one_place():
    text = "a = () 100\n b = () 100\n c = (a, b) 100 takes=a,b"
    assert in_use(text, range(3)) == [100, 200, 200]


def test_the_buffer_of_a_result_is_not_reused():
    text = "a = () 100 lasts\n b = (a) 100 takes=a\n c = (b) 20"
    assert in_use(text, range(3)) == [100, 200, 220]


GRAPH = """
    x = _Arg() [1000]
    w = VarHandleOp() resource
    v = ReadVariableOp(w) [1000]
    a = Mul(x, v) [1000]
    r = Reshape(a, s) [10, 100]
    s = Const() int32[2]
    t = Tanh(r) [10, 100]
    m = Sum(t, s) []
    d = TanhGrad(t, r) [10, 100]
    u = ResourceApplyGradientDescent(w, m, d)
    out = _Retval(d)
"""


def build(smallest_bytes):
    work = make_work(GRAPH, values={"s": [10, 100]}, variables={"w": (1000,)})
    names = work.graph.names
    order = [names.index(name) for name in "x w s v a r t m d u out".split()]
    problem = build_problem(work, order, frozenset({"Sum"}), smallest_bytes, base_bytes=8000)
    return problem, [names[node] for node in problem.nodes]


def test_tasks_are_what_makes_or_reads_large_values():
    problem, tasks = build(smallest_bytes=1000)
    assert tasks == ["a", "t", "m", "d", "u"]
    # What a reshape shows is the value behind it.
    assert problem.reads == [(), (0,), (1,), (1, 0), (2,)]
    assert problem.makes == [(0,), (1,), (), (2,), ()]
    assert problem.sizes == [4000, 4000, 4000]
    assert problem.lasting == [False, False, True]
    assert problem.makers == [0, 1, 3]
    assert problem.base_bytes == 8000


def test_updates_and_stateful_ops_are_not_rematerialized():
    problem, tasks = build(smallest_bytes=1000)
    assert dict(zip(tasks, problem.can_remat, strict=True)) == {
        "a": True, "t": True, "m": False, "d": True, "u": False,
    }  # fmt: skip


def test_small_values_are_left_alone():
    problem, tasks = build(smallest_bytes=5000)
    assert (len(problem), tasks, problem.sizes) == (0, [], [])


def test_each_device_has_a_part_of_its_own():
    """What another device made is not kept here: the two could be on machines that never heard of each other."""
    work = make_work(GRAPH, values={"s": [10, 100]}, variables={"w": (1000,)})
    names = work.graph.names
    order = [names.index(name) for name in "x w s v a r t m d u out".split()]
    devices = ["B" if name in ("d", "u", "out") else "A" for name in names]
    problem = build_problem(work, order, frozenset({"Sum"}), 1000, 0, devices=devices)
    assert [names[node] for node in problem.nodes] == ["a", "t", "m", "d", "u"]
    assert problem.parts == [0, 3]
    assert [problem.part_of(task) for task in range(5)] == [0, 0, 0, 1, 1]
    assert problem.reads == [(), (0,), (1,), (), (2,)]
