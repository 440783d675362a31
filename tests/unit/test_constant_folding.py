"""Tensors that depend on constants alone are computed once and kept."""

import numpy as np

from lowtide.program.constant_folding import LARGEST_FOLDED_BYTES, fold_constants
from lowtide.simulator.executor import execute
from tests.unit.graphs import event_names, make_graph, make_work

MEAN_GRADIENT = """
x = _Arg() [1000,10]
one = Const() [1,1]
many = Const() int32[2]
t = Tile(one, many) [1000,10]
y = Mul(x, t) [1000,10]
"""


def run_nodes(text):
    work = make_work(text)
    stream = execute(work, threads=1)
    return work, stream, [work.graph.names[node] for node in stream.order]


def test_a_tensor_of_constants_becomes_a_constant():
    work, stream, ran = run_nodes(MEAN_GRADIENT)
    assert sorted(ran) == ["t/folded", "x", "y"]
    assert event_names(work, stream) == ["+y", "-y"]
    before = {work.graph.names[work.graph.producer(stream.owner_ids[buffer])] for buffer in stream.before}
    # What it was made from is gone, with its bytes.
    assert before == {"x", "t/folded"}


def test_a_node_that_another_waits_for_still_runs():
    _, _, ran = run_nodes(MEAN_GRADIENT + "z = FancyOp(x, ^t) [5]")
    assert sorted(ran) == ["many", "one", "t", "t/folded", "x", "y", "z"]


def test_a_folded_constant_keeps_its_control_inputs():
    graph, _ = fold_constants(make_graph(MEAN_GRADIENT.replace("Tile(one, many)", "Tile(one, many, ^x)")))
    assert [graph.names[node] for node in graph.controls_of(len(graph) - 1)] == ["x"]


def test_a_tensor_that_is_too_large_is_computed_in_every_step():
    rows = LARGEST_FOLDED_BYTES // 4
    text = "one = Const() [1]\nmany = Const() int32[1]\nt = Tile(one, many) [{}]\ny = FancyOp(t) [5]"
    assert "t" not in run_nodes(text.format(rows))[2]
    assert "t" in run_nodes(text.format(rows + 1))[2]


def test_stateful_random_and_unknown_ops_are_not_folded():
    for op in "RandomUniform StatelessRandomGetKeyCounter ReadVariableOp FancyOp TensorListReserve".split():
        text = f"s = Const() int32[2]\nr = {op}(s) [1000,10]\ny = FancyOp(r) [5]"
        assert "r" in run_nodes(text)[2], op


def test_a_small_value_is_kept():
    text = "a = Const() int32[]\nb = Const() int32[]\nc = AddV2(a, b) int32[]\ny = FancyOp(c) [5]"
    graph, left_over = fold_constants(make_graph(text, values={"a": 3, "b": 4}))
    assert graph.names[-1] == "c/folded"
    assert graph.values[graph.tensor_count - 1] == np.int32(7)
    assert {graph.names[node] for node in left_over} == {"a", "b", "c"}


def test_a_graph_without_such_tensors_is_left_as_it_is():
    graph = make_graph("x = _Arg() [5]\nc = Const() [5]\ny = Mul(x, c) [5]")
    assert fold_constants(graph) == (graph, frozenset())
