"""The Graph's columns: producers, readers and sizes."""

import pytest

from lowtide.program.dtypes import dtype_name, element_bytes
from lowtide.program.graph import follow_handle
from tests.unit.graphs import make_graph, tensor

TEXT = """
v = _Arg() resource
x = _Arg() [10,25]
parts = Split(x) [10,5] int64[10,20]
sum = AddV2(parts, parts:1, ^x) [10,5]
open = Where(sum) float32?
bare = NoOp(^sum)
"""


@pytest.fixture
def graph():
    return make_graph(TEXT, variables={"v": (25, 4)})


def test_tensors_are_numbered_by_node_and_port(graph):
    assert len(graph) == 6
    assert graph.tensor_count == 6
    assert list(graph.outputs_of(2)) == [2, 3]
    assert list(graph.outputs_of(5)) == []
    assert graph.inputs_of(3) == [2, 3]
    assert graph.controls_of(3) == [1]
    assert graph.controls_of(5) == [3]


def test_producers(graph):
    assert graph.producers() == [0, 1, 2, 2, 3, 4]
    assert [graph.producer(each) for each in range(6)] == [0, 1, 2, 2, 3, 4]


def test_bytes(graph):
    assert graph.tensor_bytes(tensor(graph, "x")) == 1000
    assert graph.tensor_bytes(tensor(graph, "parts:1")) == 1600
    assert graph.tensor_bytes(tensor(graph, "open")) is None
    assert graph.variable_bytes(tensor(graph, "v")) == 400
    assert graph.variable_bytes(tensor(graph, "x")) is None


def test_view_of_a_node(graph):
    view = graph.view(3)
    assert (view.name, view.op, view.input_count, view.output_count) == ("sum", "AddV2", 2, 1)
    assert view.input_shape(1) == (10, 20)
    assert view.input_dtype(1) == "int64"
    assert view.input_bytes(1) == 1600
    assert view.input_value(1) is None
    assert (view.output_shape(), view.output_dtype(), view.output_bytes()) == ((10, 5), "float32", 200)


def test_view_of_attributes_and_values():
    graph = make_graph("c = Const() int32[2]\nr = Reshape(c, c) int32[2] deep=3", values={"c": [1, 2]})
    assert graph.view(1).attribute("deep") == 3
    assert graph.view(1).attribute("absent") is None
    assert graph.view(1).attribute("absent", 7) == 7
    assert graph.view(1).input_value(1).tolist() == [1, 2]


def test_handles_are_followed_through_control_flow():
    graph = make_graph(
        """
        v = VarHandleOp() resource
        p = _Arg() bool[]
        s = Switch(v, p) resource resource
        i = Identity(s:1) resource
        e = Enter(i) resource frame_name="loop"
        """,
        variables={"v": (3,)},
    )
    assert follow_handle(graph, tensor(graph, "e")) == tensor(graph, "v")
    assert follow_handle(graph, tensor(graph, "v")) == tensor(graph, "v")


def test_a_loop_of_handles_ends():
    graph = make_graph("m = Merge(n, n) resource int32[]\nn = NextIteration(m) resource")
    assert follow_handle(graph, 0) in (0, 2)


def test_dtypes():
    assert [element_bytes(number) for number in (1, 2, 9, 10, 14, 19)] == [4, 8, 8, 1, 2, 2]
    assert dtype_name(14) == "bfloat16"
    assert dtype_name(999) == "dtype999"
