"""The order in which nodes run, and that no order leaks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.program.dtypes import DTYPES
from lowtide.program.graph import Graph
from lowtide.simulator.executor import execute
from lowtide.simulator.workload import build_workload
from tests.unit.graphs import alive, event_names, finished_nodes, lasting, make_work, peak_of


def order(text):
    work = make_work(text)
    return finished_nodes(work, execute(work, threads=1))


def test_roots_run_in_the_order_of_construction():
    assert order("b = Const() [1]\na = Const() [1]\nx = _Arg() [1]") == ["x", "b", "a"]


def test_the_last_expensive_node_runs_next_and_the_others_newest_first():
    assert order(
        """
        x = _Arg() [4]
        a = FancyOp(x) [4]
        b = FancyOp(x) [4]
        c = FancyOp(x) [4]
        d = FancyOp(x) [4]
        """
    ) == ["x", "d", "c", "b", "a"]


def test_cheap_nodes_run_first_and_then_the_newest_task():
    assert order(
        """
        x = _Arg() [4]
        a = FancyOp(x) [4]
        i = Identity(x) [4]
        b = FancyOp(x) [4]
        j = Identity(x) [4]
        c = FancyOp(x) [4]
        """
    ) == ["x", "i", "j", "c", "b", "a"]


def test_successors_of_a_cheap_node_wait_behind_the_queue_of_cheap_nodes():
    assert order(
        """
        x = _Arg() [4]
        i = Identity(x) [4]
        j = Identity(x) [4]
        a = FancyOp(i) [4]
        k = Identity(i) [4]
        """
    ) == ["x", "i", "j", "k", "a"]


def test_a_chain_is_followed_before_older_tasks():
    assert order(
        """
        x = _Arg() [4]
        a = FancyOp(x) [4]
        b = FancyOp(x) [4]
        c = FancyOp(b) [4]
        d = FancyOp(c) [4]
        e = FancyOp(a) [4]
        """
    ) == ["x", "b", "c", "d", "a", "e"]


def test_new_tasks_come_before_older_ones():
    assert order(
        """
        x = _Arg() [4]
        a = FancyOp(x) [4]
        b = FancyOp(x) [4]
        c = FancyOp(b) [4]
        d = FancyOp(b) [4]
        """
    ) == ["x", "b", "d", "c", "a"]


def test_control_edges_are_waited_for():
    assert order("x = _Arg() [4]\na = FancyOp(x) [4]\nb = FancyOp(x, ^a) [4]\nc = NoOp(^b)") == ["x", "a", "b", "c"]


def test_the_order_decides_the_peak():
    """Three products of one input, each reduced: newest first keeps one of them alive at a time."""
    text = """
    x = _Arg() [1000]
    a = FancyOp(x) [1000]
    b = FancyOp(x) [1000]
    c = FancyOp(x) [1000]
    p = FancyOp(a) [1]
    q = FancyOp(b) [1]
    r = FancyOp(c) [1]
    """
    work = make_work(text)
    stream = execute(work, threads=1)
    assert event_names(work, stream) == ["+c", "+r", "-c", "-r", "+b", "+q", "-b", "-q", "+a", "+p", "-a", "-p"]
    assert peak_of(stream) == 4000 + 4000 + 4


WIDE = "x = _Arg() [100000]\n" + "\n".join(
    f"a{i} = FancyOp(x) [100000]\nb{i} = Relu(a{i}) [100000]\nc{i} = FancyOp(b{i}) [10]" for i in range(12)
)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_same_seed_gives_the_same_stream(threads):
    work = make_work(WIDE)
    assert execute(work, threads, seed=3) == execute(work, threads, seed=3)


def test_another_seed_gives_another_order_on_several_threads():
    work = make_work(WIDE)
    assert len({tuple(execute(work, 2, seed).order) for seed in range(8)}) > 1


def test_one_thread_always_runs_in_the_same_order():
    work = make_work(WIDE)
    assert len({tuple(execute(work, 1, seed).events) for seed in range(8)}) == 1


def test_two_threads_keep_two_products_alive():
    work = make_work(WIDE)
    size = 400_000
    assert peak_of(execute(work, 1)) == size + size + 40
    assert {peak_of(execute(work, 2, seed)) // size for seed in range(8)} == {3}


def test_an_empty_graph():
    stream = execute(build_workload(Graph([], [], [], [0], [], [0], [], [0], [], [])))
    assert stream.events == []
    assert stream.order == []


NUMBERS = {name: number for number, (name, _) in DTYPES.items()}


@st.composite
def programs(draw):
    """A random program: elementwise ops, views, reads and updates of two variables, results, and waiting."""
    count = draw(st.integers(1, 18))
    shapes = [(draw(st.integers(1, 3)) * 100,) for _ in range(2)]
    lines = [f"v{i} = _Arg() resource index={i}" for i in range(2)] + ["x = _Arg() [100] index=2"]
    tensors = {"x": 100}
    nodes = ["x"]
    for position in range(count):
        name, source = f"n{position}", draw(st.sampled_from(sorted(tensors)))
        other = draw(st.sampled_from(sorted(tensors)))
        waits = "".join(f", ^{node}" for node in draw(st.lists(st.sampled_from(nodes), max_size=2, unique=True)))
        variable = draw(st.integers(0, 1))
        size = shapes[variable][0]
        kind = draw(
            st.sampled_from(["Relu", "AddV2", "Identity", "FancyOp", "Call", "Read", "Assign", "Update", "Result"])
        )
        if kind in ("Relu", "Identity"):
            lines.append(f"{name} = {kind}({source}{waits}) [{tensors[source]}]")
            tensors[name] = tensors[source]
        elif kind == "AddV2":
            tensors[name] = max(tensors[source], tensors[other])
            lines.append(f"{name} = AddV2({source}, {other}{waits}) [{tensors[name]}]")
        elif kind == "FancyOp":
            tensors[name] = draw(st.integers(0, 3)) * 100
            lines.append(f"{name} = FancyOp({source}{waits}) [{tensors[name]}]")
        elif kind == "Call":
            tensors[name] = 200
            lines.append(
                f"{name} = PartitionedCall({source}{waits}) [200] lowtide_workspace_bytes={draw(st.integers(0, 999))}"
            )
        elif kind == "Read":
            lines.append(f"{name} = ReadVariableOp(v{variable}{waits}) [{size}]")
            tensors[name] = size
        elif kind in ("Assign", "Update"):
            lines.append(f"{name}v = FancyOp({source}) [{size}]")
            op = "AssignVariableOp" if kind == "Assign" else "AssignAddVariableOp"
            lines.append(f"{name} = {op}(v{variable}, {name}v{waits})")
        else:
            lines.append(f"{name} = _Retval({source}{waits})")
        nodes.append(name)
    return make_work("\n".join(lines), variables={"v0": shapes[0], "v1": shapes[1]})


@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(1, 5), st.integers(0, 1000))
def test_no_buffer_leaks_or_is_freed_twice(work, threads, seed):
    stream = execute(work, threads, seed)
    assert alive(stream) == lasting(stream)
    assert sorted(stream.order) == list(range(len(work.graph)))
    assert execute(work, threads, seed) == stream


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(1, 5), st.integers(0, 1000))
def test_the_peak_is_at_least_what_any_node_needs_alone(work, threads, seed):
    """A kernel's inputs, temporaries and newly allocated outputs are alive together."""
    stream = execute(work, threads, seed)
    before = sum(stream.sizes[buffer] for buffer in stream.before)
    largest = max((stream.sizes[event] for event in stream.events if event >= 0), default=0)
    assert (
        before + largest
        <= peak_of(stream)
        <= before + sum(stream.sizes[event] for event in stream.events if event >= 0)
    )
    needs = [
        sum(work.temporaries[node]) + sum(work.sizes[out] for out in work.outputs[node])
        for node in range(len(work.graph))
    ]
    calls = [need for node, need in enumerate(needs) if work.graph.ops[node] == "PartitionedCall"]
    assert peak_of(stream) >= before + max(calls, default=0)


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(1, 4))
def test_a_node_runs_after_what_it_waits_for(work, threads):
    stream = execute(work, threads, 5)
    position = {node: place for place, node in enumerate(stream.order)}
    for node in range(len(work.graph)):
        sources = [work.graph.producer(tensor) for tensor in work.inputs[node]] + list(work.graph.controls_of(node))
        assert all(position[source] < position[node] for source in sources)


def test_more_readers_than_tensorflow_keeps_in_order_are_notified_in_any_order():
    few = "x = _Arg() [4]\n" + "\n".join(f"a{index} = FancyOp(x) [4]" for index in range(8))
    many = few + "\na8 = FancyOp(x) [4]"
    for text, orders in ((few, 1), (many, 2)):
        work = make_work(text)
        found = {tuple(finished_nodes(work, execute(work, threads=1, seed=seed))) for seed in range(20)}
        assert (len(found) == 1) == (orders == 1)


def test_one_thread_runs_all_arguments_and_passes_reads_to_the_others():
    # The reads of nine variables wait in the queue while their arguments pass; the last handed over runs first.
    text = "\n".join(f"h{index} = _Arg() resource\nr{index} = ReadVariableOp(h{index}) [4]" for index in range(3))
    work = make_work(text, variables={f"h{index}": (4,) for index in range(3)})
    order = finished_nodes(work, execute(work, threads=1))
    assert order[:3] == ["h0", "h1", "h2"]
    assert order[3:] == ["r2", "r1", "r0"]
