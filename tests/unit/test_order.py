"""The order of a step's nodes: legal, the same every time, and low."""

import random

import pytest
from hypothesis import given, settings

from lowtide.errors import LowtideError
from lowtide.planning.memory_profile import OrderProfiler
from lowtide.planning.order.flow_network import SINK, SOURCE, FlowNetwork
from lowtide.planning.order.list_scheduling import closest_legal_order, growing_last, shrinking_first
from lowtide.planning.order.memory_cut import lowest_before
from lowtide.planning.order.order import lowest_order
from lowtide.planning.order.order_problem import build_order_problem
from lowtide.planning.order.weight_updates import run_updates_early
from lowtide.simulator.executor import execute, replay
from tests.unit.graphs import alive, lasting, make_work, peak_of
from tests.unit.test_executor import WIDE, programs


def order(text, **details):
    """The names of a graph's nodes in the order that is found, and its peak."""
    work = make_work(text, **details)
    found = lowest_order(work)
    return [work.graph.names[node] for node in found.nodes], found.peak_bytes


def tasks_of(text, **details):
    """The tasks of a graph, and their names."""
    work = make_work(text, **details)
    schedule = execute(work, threads=1)
    tasks = build_order_problem(work, schedule.order, peak_of(schedule))
    return tasks, [work.graph.names[node] for node in tasks.nodes]


def waits_for(work, node):
    return [work.graph.producer(tensor) for tensor in work.inputs[node]] + list(work.graph.controls_of(node))


def is_legal(work, nodes):
    position = {node: place for place, node in enumerate(nodes)}
    expected = [node for node in range(len(work.graph)) if node not in work.folded_away]
    return sorted(nodes) == expected and all(
        position[source] < position[node] for node in nodes for source in waits_for(work, node)
    )


def lowest_peak(work):
    """The lowest peak of all orders there are, by looking at every set of nodes that can have run."""
    count = len(work.graph)
    needs = [sum(1 << source for source in set(waits_for(work, node))) for node in range(count)]
    best = {0: (0, ())}
    for _ in range(count):
        following = {}
        for done, (_, nodes) in best.items():
            for node in range(count):
                if not done >> node & 1 and needs[node] & done == needs[node]:
                    longer = (*nodes, node)
                    peak = peak_so_far(work, longer)
                    key = done | 1 << node
                    if key not in following or peak < following[key][0]:
                        following[key] = (peak, longer)
        best = following
    return next(iter(best.values()))[0]


def peak_so_far(work, nodes):
    schedule = replay(work, nodes)
    now = highest = sum(schedule.sizes[buffer] for buffer in schedule.before)
    for event in schedule.events:
        now += schedule.sizes[event] if event >= 0 else -schedule.sizes[~event]
        highest = max(highest, now)
    return highest


BRANCHES = """
x = _Arg() [1000]
a = FancyOp(x) [1000]
b = FancyOp(x) [1000]
c = FancyOp(x) [1000]
p = FancyOp(a) [1]
q = FancyOp(b) [1]
r = FancyOp(c) [1]
s = FancyOp(p, q, r) [1]
"""


def test_one_branch_after_the_other():
    nodes, peak = order(BRANCHES)
    # x, one large value and the small ones.
    assert peak == 4000 + 4000 + 12
    assert [nodes.index(large) - nodes.index(small) for large, small in ("ap", "bq", "cr")] == [-1, -1, -1]


def test_a_value_that_is_needed_late_is_computed_late():
    nodes, peak = order(
        """
        x = _Arg() [10]
        mask = FancyOp(x) [1000]
        a = FancyOp(x) [2000]
        b = FancyOp(a) [10]
        c = FancyOp(b, mask) [10]
        """
    )
    assert nodes == ["x", "a", "b", "mask", "c"]
    assert peak == 40 + 8000 + 40


def test_tasks_that_free_memory_run_early():
    nodes, peak = order(
        """
        x = _Arg() [10]
        a = FancyOp(x) [1000]
        b = FancyOp(a) [10]
        big = FancyOp(b) [2000]
        end = FancyOp(big) [10]
        sum = FancyOp(a) [10]
        all = FancyOp(sum, end) [10]
        """
    )
    assert nodes.index("sum") < nodes.index("big")
    assert peak == 40 + 40 + 40 + 8000


def test_a_task_that_grows_memory_runs_early_if_it_leads_to_a_release():
    """Step by step, `up` only raises memory; but behind it two large values go."""
    nodes, peak = order(
        """
        x = _Arg() [10]
        a = FancyOp(x) [3000]
        b = FancyOp(a) [10]
        up = FancyOp(a) [3500]
        down = FancyOp(up) [10]
        big = FancyOp(b) [5000]
        end = FancyOp(big, down) [10]
        """
    )
    assert nodes.index("down") < nodes.index("big")
    assert peak == 40 + 40 + 12000 + 14000


TRAINING = """
w = _Arg() resource index=0
u = _Arg() resource index=1
x = _Arg() [100] index=2
rw = ReadVariableOp(w) [1000]
ru = ReadVariableOp(u) [1000]
h = FancyOp(x, rw) [100]
y = FancyOp(h, ru) [100]
dy = FancyOp(y) [100]
du = FancyOp(h, dy) [1000]
dh = FancyOp(dy, ru) [100]
dw = FancyOp(x, dh) [1000]
su = AssignSubVariableOp(u, du, ^ru)
sw = AssignSubVariableOp(w, dw, ^rw)
"""


def test_a_weight_is_updated_after_its_gradient_and_its_last_reader():
    nodes, peak = order(TRAINING, variables={"w": (1000,), "u": (1000,)})
    # One gradient at a time, and no variable is copied.
    assert nodes.index("dh") < nodes.index("su")
    assert nodes.index("su") < nodes.index("dw") or nodes.index("sw") < nodes.index("du")
    work = make_work(TRAINING, variables={"w": (1000,), "u": (1000,)})
    assert peak == lowest_peak(work)


def test_an_update_that_readers_wait_for_does_not_wait_for_them():
    nodes, _ = order(
        """
        w = _Arg() resource index=0
        x = _Arg() [1000] index=1
        r = ReadVariableOp(w) [1000]
        a = FancyOp(r) [1000]
        s = AssignSubVariableOp(w, a, ^r)
        b = FancyOp(r, ^s) [1000]
        """,
        variables={"w": (1000,)},
    )
    assert nodes[-2:] == ["s", "b"]


def test_a_value_is_overwritten_after_its_other_readers():
    nodes, peak = order(
        """
        x = _Arg() [10]
        a = FancyOp(x) [1000]
        b = Relu(a) [1000]
        c = FancyOp(a) [10]
        d = FancyOp(b, c) [10]
        """
    )
    assert nodes.index("c") < nodes.index("b")
    assert peak == 40 + 4000 + 40 + 40


def test_two_tapes_run_one_after_the_other():
    """Two networks that share nothing but their batch: their activations need not be there together."""
    text = "x = _Arg() [10]\n"
    for name in "ab":
        text += f"{name}0 = FancyOp(x) [1000]\n"
        text += "".join(f"{name}{i} = FancyOp({name}{i - 1}) [1000]\n" for i in range(1, 6))
        text += f"{name}g5 = FancyOp({name}5) [1000]\n"
        text += "".join(f"{name}g{i} = FancyOp({name}g{i + 1}, {name}{i}) [1000]\n" for i in range(4, -1, -1))
        text += f"{name}r = FancyOp({name}g0) [10]\n"
    _, peak = order(text + "both = FancyOp(ar, br) [10]")
    # Five activations that wait, the gradient that comes and the one that is made.
    assert peak == 40 + 7 * 4000 + 40


def test_nodes_that_are_not_run_are_not_in_the_order():
    work = make_work(
        "c = Const() int32[2]\nd = Const() int32[2]\ne = AddV2(c, d) int32[2]\nx = _Arg() [4]\ny = Relu(x) [4]",
        values={"c": [1, 2], "d": [3, 4]},
    )
    assert is_legal(work, lowest_order(work).nodes)


def test_an_empty_graph():
    assert lowest_order(make_work("x = _Arg() [4]")).nodes == [0]


def test_loops_in_single_steps_are_refused():
    work = make_work("x = _Arg() [4]\np = Const() bool[]\ns = Switch(x, p) [4] [4]\nm = Merge(s, s:1) [4] int32[]")
    with pytest.raises(LowtideError, match="loop"):
        lowest_order(work)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_an_order_is_legal_and_no_worse_than_the_executors(work):
    found = lowest_order(work)
    assert is_legal(work, found.nodes)
    schedule = replay(work, found.nodes)
    assert alive(schedule) == lasting(schedule)
    assert peak_of(schedule) == found.peak_bytes
    assert all(found.peak_bytes <= peak_of(execute(work, threads, 0)) for threads in (1, 2))
    assert lowest_order(work) == found


def random_step(seed, layers=3):
    """A small step: layers with side branches, forward and backward, that wait here and there."""
    rng = random.Random(seed)
    lines, known = ["x = _Arg() [10]"], ["x"]
    for index in range(layers * 4):
        sources = dict.fromkeys(rng.choice(known[-5:]) for _ in range(rng.randint(1, 2)))
        lines.append(f"n{index} = FancyOp({', '.join(sources)}) [{rng.choice((10, 100, 200, 500, 1000))}]")
        known.append(f"n{index}")
    return make_work("\n".join(lines))


@pytest.mark.parametrize("seed", range(10))
def test_small_graphs_get_the_lowest_peak_there_is(seed):
    work = random_step(seed)
    assert lowest_order(work).peak_bytes == lowest_peak(work)


def test_wide_graphs_keep_one_branch_alive():
    work = make_work(WIDE)
    assert lowest_order(work).peak_bytes == 400_000 + 400_000 + 40


def test_a_profile_of_lifetimes_agrees_with_a_replay():
    tasks, names = tasks_of(BRANCHES)
    assert names == ["c", "r", "b", "q", "a", "p"] or set(names) == set("abcpqr")
    bytes_per_task = OrderProfiler(tasks).bytes_per_task([names.index(name) for name in "abcpqr"])
    assert list(bytes_per_task) == [4000, 8000, 12000, 12000, 8000, 4000]


def test_sweeps():
    tasks, names = tasks_of(BRANCHES)
    wanted = [names.index(name) for name in "abcpqr"]
    assert closest_legal_order(tasks, wanted) == wanted
    assert [names[task] for task in shrinking_first(tasks, wanted)] == list("apbqcr")
    assert [names[task] for task in growing_last(tasks, wanted)] == list("apbqcr")


def test_the_minimum_cut_leaves_the_least_memory_before_a_task():
    tasks, names = tasks_of(BRANCHES)
    ids = {name: names.index(name) for name in names}
    before = lowest_before(tasks, ids["c"], [ids[name] for name in "abcpqr"], set())
    assert before == set()
    earlier = {ids["a"], ids["b"]}
    before = lowest_before(tasks, ids["c"], [ids[name] for name in "cpqr"], earlier)
    assert before == {ids["p"], ids["q"]}


def test_a_minimum_cut():
    network = FlowNetwork()
    first, second, third = (network.add_node() for _ in range(3))
    for start, end, size in (
        (SOURCE, first, 10),
        (first, second, 3),
        (second, SINK, 9),
        (SOURCE, third, 2),
        (third, second, 7),
    ):
        network.add_edge(start, end, size)
    side = network.source_side()
    assert [place for place, inside in enumerate(side) if inside] == [SOURCE, first]


UPDATES = """
x = _Arg() [1000]
u = _Arg() resource
m = _Arg() resource
c = Const() []
a = Exp(x) [1000]
b = Sin(a) [1000]
gu = Cos(b) [100]
e = Tan(b) [1000]
f = Sin(e) [1000]
h = Cos(f) [1000]
s = Mul(gu, c) [100]
k = Mul(rm, c) [100]
rm = ReadVariableOp(m) [100]
t = AddV2(k, s) [100]
am = AssignVariableOp(m, t, ^rm)
done = NoOp(^am, ^h)
r = _Retval(h)
"""


def test_an_update_runs_when_its_gradient_is_there():
    work = make_work(UPDATES, variables={"u": (100,), "m": (100,)})
    tasks = build_order_problem(work, execute(work, threads=1).order, 5000)
    names = [work.graph.names[node] for node in tasks.nodes]
    late = [names.index(name) for name in "a b gu e f h k s t am".split()]
    early = [names[task] for task in run_updates_early(tasks, late)]
    assert early.index("am") < early.index("e")
    assert early.index("gu") < early.index("k") < early.index("t") < early.index("am")
    assert sorted(early) == sorted(names[task] for task in late)


def test_an_update_that_would_raise_the_peak_stays_where_it_was():
    # The gradient comes while the most is in use, and an update needs as much again.
    text = UPDATES.replace("gu = Cos(b) [100]", "gu = Cos(b, a) [100]").replace("[100]", "[900]")
    work = make_work(text, variables={"u": (900,), "m": (900,)})
    tasks = build_order_problem(work, execute(work, threads=1).order, 5000)
    names = [work.graph.names[node] for node in tasks.nodes]
    late = [names.index(name) for name in "a b gu e f h k s t am".split()]
    profiler = OrderProfiler(tasks)
    assert profiler.bytes_per_task(run_updates_early(tasks, late)).max() <= profiler.bytes_per_task(late).max()
