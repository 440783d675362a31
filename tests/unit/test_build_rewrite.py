"""From a schedule to edits: on graphs of a few nodes, by name."""

from __future__ import annotations

import pytest

from lowtide.planning.problem import build_problem
from lowtide.planning.rewrite.build_rewrite import _limits_without, build_rewrite
from lowtide.planning.rewrite.concurrency import FIRM, LOOSE, NONE, Concurrency
from lowtide.planning.rewrite.fusion import fused_nodes
from lowtide.program.graph import Graph
from lowtide.simulator.workload import build_workload

FLOAT = 1
ROWS = 1 << 16


def make_graph(text: str) -> Graph:
    """A graph of lines `name op input input ^control`; every tensor has the same large shape but what Sum makes."""
    graph = Graph([], [], [], [0], [], [0], [], [0], [], [])
    first: dict[str, int] = {}
    lines = [line.split() for line in text.strip().splitlines()]
    for name, op, *_ in lines:
        first[name] = len(graph.dtypes)
        graph.names.append(name)
        graph.ops.append(op)
        graph.attributes.append({"index": len(first) - 1} if op in ("_Arg", "_Retval") else {})
        if op != "_Retval":
            graph.dtypes.append(FLOAT)
            graph.shapes.append((1,) if op in ("BiasAddGrad", "Const") else (ROWS,))
        graph.first_output.append(len(graph.dtypes))
    names = list(first)
    for _, _, *inputs in lines:
        graph.inputs += [first[each] for each in inputs if not each.startswith("^")]
        graph.controls += [names.index(each[1:]) for each in inputs if each.startswith("^")]
        graph.first_input.append(len(graph.inputs))
        graph.first_control.append(len(graph.controls))
    return graph


CHAIN = """
x _Arg
a Exp x
view Identity a
b Sin view
c Cos b
g Mul c c
h Mul g view
r _Retval h
"""


def rewrite_of(
    text: str,
    again: dict[str, str],
    tied: bool = False,
    written: str | None = None,
    second: str = "",
    concurrency: Concurrency = NONE,
):
    """The edits for a schedule in file order, with some nodes again just before others.

    Under a compiler only the results of some nodes are `written` to memory; some nodes run on a second device.
    """
    graph = make_graph(text)
    work = build_workload(graph, fold=False)
    fused = frozenset() if written is None else fused_nodes(work, written.split())
    devices = [str(name in second.split()) for name in graph.names]
    problem = build_problem(work, range(len(graph)), frozenset(), 1 << 10, 0, fused, devices)
    tasks = {graph.names[node]: task for task, node in enumerate(problem.nodes)}
    schedule: list[int] = []
    for name, task in tasks.items():
        schedule += [~tasks[other] for other, before in again.items() if before == name]
        schedule.append(task)
    return build_rewrite(work, problem, schedule, tied, concurrency).rewrite


def test_the_plain_schedule_of_a_chain_changes_nothing():
    rewrite = rewrite_of(CHAIN, {})
    assert rewrite.copies == rewrite.inputs == rewrite.controls == ()


def test_later_readers_read_the_copy_through_a_copy_of_its_view():
    rewrite = rewrite_of(CHAIN, {"a": "h"})
    assert rewrite.copies == (("a/again", "a"), ("view/again", "view"))
    assert rewrite.inputs == (("view/again", 0, "a/again"), ("h", 1, "view/again"))
    # Nothing else keeps the copy from running at once.
    assert rewrite.controls == (("g", "a/again"),)


def test_a_copy_reads_copies():
    rewrite = rewrite_of(CHAIN.replace("h Mul g view", "h Mul g b"), {"a": "h", "b": "h"})
    assert ("b/again", 0, "view/again") in rewrite.inputs
    assert ("h", 1, "b/again") in rewrite.inputs
    assert rewrite.controls == (("g", "a/again"),)


def test_results_are_what_was_made_last():
    rewrite = rewrite_of(CHAIN.replace("r _Retval h", "i Exp h\nr _Retval a\ns _Retval i"), {"a": "h"})
    assert ("r", 0, "a/again") in rewrite.inputs


def test_branches_are_held_in_their_order():
    rewrite = rewrite_of("x _Arg\na Exp x\nb Sin x\nc Cos x\nd AddN a b c\nr _Retval d", {})
    assert rewrite.controls == (("a", "b"), ("b", "c"))


BRANCHES = "\n".join(["x _Arg", *(f"b{index} Exp x" for index in range(6)), "s AddN b0 b1 b2 b3 b4 b5", "r _Retval s"])


def test_with_concurrency_all_tasks_that_fit_in_memory_run_at_once():
    assert rewrite_of(BRANCHES, {}, concurrency=LOOSE).controls == ()
    # There is no room for two, and yet three may be under way.
    one_by_one = "\n".join(f"b{index} Exp x\ns{index} Sum b{index} x" for index in range(6))
    controls = rewrite_of(f"x _Arg\n{one_by_one}\nr _Retval s5", {}, concurrency=LOOSE).controls
    assert ("s0", "b2") in controls
    assert ("s0", "b1") not in controls


def test_one_barrier_replaces_many_edges():
    many = [f"b{index}" for index in range(40)]
    lines = ["x _Arg", *(f"{name} Exp x" for name in many), *(f"c{name} Sum {name} x" for name in many)]
    late = [f"l{index}" for index in range(60)]
    text = "\n".join([*lines, *(f"{name} Sin b39" for name in late), f"s AddN {' '.join(late)}", "r _Retval s"])
    rewrite = rewrite_of(text, {}, concurrency=LOOSE)
    barriers = dict(rewrite.barriers)
    assert barriers
    assert all(name == f"{behind}/barrier" for name, behind in barriers.items())
    assert {before for before, after in rewrite.controls if after not in barriers} & barriers.keys()


def test_the_task_at_the_peak_runs_alone():
    controls = rewrite_of(BRANCHES, {}, concurrency=FIRM).controls
    assert {after for _, after in controls} == {"b5"}
    # More memory is in use later, so no task here has to wait for another.
    later = BRANCHES.replace("r _Retval s", "".join(f"t{index} Sin s\n" for index in range(40)))
    later += "\n".join(["u AddN " + " ".join(f"t{index}" for index in range(40)), "r _Retval u"])
    controls = rewrite_of(later, {}, concurrency=FIRM).controls
    assert not any(after.startswith("b") for _, after in controls)
    assert ("t38", "t39") in controls
    assert ("t0", "t1") not in controls


def test_a_bias_gradient_waits_for_what_its_filter_gradient_waits_for():
    """oneDNN makes one node of the two, if both wait for the same nodes."""
    text = """
x _Arg
k _Arg
a Exp x
b Sin a
g Cos b
other Exp k
bias BiasAddGrad g
filter Conv2DBackpropFilter b k g
r _Retval filter
s _Retval bias
t _Retval other
"""
    rewrite = rewrite_of(text, {"b": "filter"})
    waits = {after: [] for _, after in rewrite.controls}
    for before, after in rewrite.controls:
        waits[after].append(before)
    assert waits.get("bias", []) == waits.get("filter", [])
    # The copy runs after the step before it, and never waits for the bias gradient.
    assert waits["b/again"] == ["other"]


def test_copies_under_a_compiler_have_data_dependencies():
    rewrite = rewrite_of(CHAIN, {"a": "h"}, tied=True)
    assert rewrite.controls == ()
    ((tie, handed_on, trigger),) = rewrite.ties
    assert (handed_on, trigger) == ("x", "g")
    assert ("a/again", 0, tie) in rewrite.inputs


@pytest.mark.parametrize("again", [{}, {"a": "h"}, {"a": "g", "b": "h"}])
def test_every_edit_names_a_node(again):
    rewrite = rewrite_of(CHAIN, again)
    names = set(make_graph(CHAIN).names) | {name for name, _ in rewrite.copies}
    assert {original for _, original in rewrite.copies} <= names
    assert {name for name, _, _ in rewrite.inputs} | {each for pair in rewrite.controls for each in pair} <= names


FUSED = """
x _Arg
k ReadVariableOp x
a Cumsum x k
b Relu a
m StatelessRandomUniformV2 x k
c Mul b m
d Cumsum c k
e Exp d
g Mul e b
h Cumsum c g
r _Retval h
"""


def test_fused_values_are_replaced_by_their_inputs():
    graph = make_graph(FUSED)
    work = build_workload(graph, fold=False)
    problem = build_problem(work, range(len(graph)), frozenset(), 1 << 10, 0, fused_nodes(work, ["c", "e", "g", "m"]))
    names = [graph.names[node] for node in problem.nodes]
    assert names == ["a", "m", "c", "d", "e", "g", "h"]
    reads = [{graph.names[graph.producers()[problem.tensors[value]]] for value in read} for read in problem.reads]
    assert reads[2] == {"a", "m"}
    assert reads[5] == {"e", "a"}


def test_a_copy_has_copies_of_what_it_reads_through():
    rewrite = rewrite_of(FUSED, {"c": "h"}, tied=True, written="c e g m")
    assert dict(rewrite.copies) == {"c/again": "c", "b/again": "b"}
    ties = {name: (handed_on, trigger) for name, handed_on, trigger in rewrite.ties}
    assert sorted(ties.values()) == [("a", "g"), ("m", "g")]
    inputs = {(name, position): reference for name, position, reference in rewrite.inputs}
    assert ties[inputs["b/again", 0]] == ("a", "g")
    assert ties[inputs["c/again", 1]] == ("m", "g")
    assert inputs["c/again", 0] == "b/again"
    assert inputs["h", 0] == "c/again"


def test_random_numbers_wait_through_their_key():
    rewrite = rewrite_of(FUSED, {"m": "h", "c": "h"}, tied=True, written="c e g m")
    inputs = {(name, position): reference for name, position, reference in rewrite.inputs}
    assert inputs["m/again", 1].startswith("k/again_tied")
    assert ("m/again", 0) not in inputs
    assert inputs["c/again", 1] == "m/again"


def test_readers_through_a_fused_value_read_the_latest_version():
    rewrite = rewrite_of(FUSED, {"a": "g"}, tied=True, written="c e g m")
    assert dict(rewrite.copies) == {"a/again": "a", "b/again": "b"}
    inputs = {(name, position): reference for name, position, reference in rewrite.inputs}
    # One input is held back, that is enough.
    assert len(rewrite.ties) == 1
    assert inputs["b/again", 0] == "a/again"
    assert inputs["g", 1] == "b/again"


TWO = """
x _Arg
a Exp x
b Sin a
other Exp x
across Cos a
far Mul other across
g Mul b b
h Mul g a
r _Retval h
q _Retval far
"""


def test_each_device_is_held_to_an_order_of_its_own():
    """A rematerialized value is read on its own device only, and the order of one device never delays another."""
    rewrite = rewrite_of(TWO, {"a": "h"}, second="other across far")
    assert rewrite.copies == (("a/again", "a"),)
    assert rewrite.inputs == (("h", 1, "a/again"),)
    assert rewrite.controls == (("g", "a/again"), ("other", "across"))


def test_uncounted_tasks_do_not_widen_the_window():
    """Of three that may be under way with c one is not counted, so c waits for all but the one other."""
    at_once = {"a": 1, "twin": 2, "b": 3, "c": 3, "d": 9}
    assert _limits_without(list(at_once), at_once, {"twin"}) == {"a": 1, "b": 2, "c": 2, "d": 8}
