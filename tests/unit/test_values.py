"""Values that follow from constants and shapes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.program.values import LARGEST_VALUE, evaluate, propagate_values
from tests.unit.graphs import make_graph, tensor


def known(op, *inputs, **attributes):
    found = evaluate(op, attributes, [np.asarray(value) for value in inputs])
    return None if found is None else [value.tolist() for value in found]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "result"),
    [
        ("AddV2", (2, 3), {}, 5),
        ("FloorDiv", (7, 2), {}, 3),
        ("FloorMod", (7, 4), {}, 3),
        ("Less", (1, 2), {}, True),
        ("LogicalAnd", (True, False), {}, False),
        ("LogicalNot", (False,), {}, True),
        ("Identity", (4,), {}, 4),
        ("Pack", (1, 2, 3), {}, [1, 2, 3]),
        ("ConcatV2", ([1, 2], [3], 0), {}, [1, 2, 3]),
        ("StridedSlice", ([5, 6, 7], [1], [2], [1]), {"shrink_axis_mask": 1}, 6),
        ("StridedSlice", ([5, 6, 7], [1], [0], [1]), {"end_mask": 1}, [6, 7]),
        ("StridedSlice", ([5, 6, 7], [0], [2], [1]), {"begin_mask": 1}, [5, 6]),
        (
            "StridedSlice",
            ([[5, 6], [7, 8]], [0, 1], [0, 2], [1, 1]),
            {"ellipsis_mask": 1, "shrink_axis_mask": 2},
            [6, 8],
        ),
        ("StridedSlice", ([5, 6, 7], [0, 1], [0, 3], [1, 1]), {"new_axis_mask": 1}, [[6, 7]]),
        (
            "StridedSlice",
            ([5, 6, 7], [0, 0], [0, 0], [1, 1]),
            {"ellipsis_mask": 1, "new_axis_mask": 2},
            [[5], [6], [7]],
        ),
        ("Slice", ([5, 6, 7], [1], [-1]), {}, [6, 7]),
        ("GatherV2", ([5, 6, 7], [2, 0], 0), {}, [7, 5]),
        ("Prod", ([2, 3, 4], [0]), {}, 24),
        ("Sum", ([[1, 2], [3, 4]], 0), {"keep_dims": True}, [[4, 6]]),
        ("Max", ([2, 9, 4], 0), {}, 9),
        ("Range", (0, 6, 2), {}, [0, 2, 4]),
        ("Reshape", ([1, 2, 3, 4], [2, 2]), {}, [[1, 2], [3, 4]]),
        ("ExpandDims", (3, 0), {}, [3]),
        ("Squeeze", ([[3]],), {"squeeze_dims": [0]}, [3]),
        ("Fill", ([2], 7), {}, [7, 7]),
        ("Tile", ([1, 2], [2]), {}, [1, 2, 1, 2]),
        ("SelectV2", (True, 1, 2), {}, 1),
        ("DynamicStitch", ([0, 2], [1], [10, 30], [20]), {}, [10, 20, 30]),
        ("BroadcastArgs", ([3, 1], [2]), {}, [3, 2]),
        ("InvertPermutation", ([2, 0, 1],), {}, [1, 2, 0]),
        ("Transpose", ([[1, 2, 3]], [1, 0]), {}, [[1], [2], [3]]),
        ("ReverseV2", ([1, 2, 3], [0]), {}, [3, 2, 1]),
        ("Cast", (3.7,), {"DstT": 3}, 3),
    ],
)
def test_one_output(op, inputs, attributes, result):
    assert known(op, *inputs, **attributes) == [result]


def test_several_outputs():
    assert known("Unpack", [[1, 2], [3, 4]]) == [[1, 2], [3, 4]]
    # A bias of shape (8,) added to (32, 8): its gradient is summed over the first axis, the other's over none.
    assert known("BroadcastGradientArgs", [32, 8], [8]) == [[], [0]]
    assert known("BroadcastGradientArgs", [4, 4], [4, 4]) == [[], []]


def test_unknown_values():
    assert known("Conv2D", 1, 2) is None
    assert known("Reshape", [1, 2, 3], [2, 2]) is None
    assert known("ConcatV2", [1], [[2]], 0) is None
    assert known("Fill", [LARGEST_VALUE + 1], 0) is None
    assert known("Fill", [LARGEST_VALUE], 0) is not None
    assert known("Fill", [1 << 20, 1 << 20], 0) is None


TEXT = """
x = _Arg() [32,10]
hidden = _Arg() float32?
shape = Shape(x) int32[2]
rank = Rank(x) int32[]
size = Size(x) int32[]
first = Const() int32[1]
second = Const() int32[1]
one = Const() int32[1]
rows = StridedSlice(shape, first, second, one) int32[] shrink_axis_mask=1
twice = AddV2(rows, rows) int32[]
open = Shape(hidden) int32[1]
after = AddV2(open, rows) int32[]
"""


def test_values_follow_from_shapes():
    graph = make_graph(TEXT, values={"first": [0], "second": [1], "one": [1]})
    values = propagate_values(graph, range(len(graph)))
    found = {name: values[tensor(graph, name)].tolist() for name in ("shape", "rank", "size", "rows", "twice")}
    assert found == {"shape": [32, 10], "rank": 2, "size": 320, "rows": 32, "twice": 64}
    assert tensor(graph, "open") not in values
    assert tensor(graph, "after") not in values
    assert values[tensor(graph, "shape")].dtype == np.int32


def test_out_type_is_kept():
    graph = make_graph("x = _Arg() [3,4]\ns = Shape(x) int64[2] out_type=9\nn = Size(x) int64[] out_type=9")
    values = propagate_values(graph, range(3))
    assert values[1].dtype == values[2].dtype == np.int64


def test_shape_of_a_variable():
    graph = make_graph(
        "v = VarHandleOp() resource\nw = _Arg() resource\ns = VariableShape(v) int32[2]\nt = VariableShape(w) int32[1]",
        variables={"v": (7, 5)},
    )
    values = propagate_values(graph, range(4))
    assert values[tensor(graph, "s")].tolist() == [7, 5]
    assert tensor(graph, "t") not in values


@given(st.lists(st.integers(1, 4), max_size=4), st.lists(st.integers(1, 4), max_size=4))
def test_axes_of_a_broadcast_gradient(left, right):
    """Summing the gradient over the returned axes gives the shape before broadcasting."""
    try:
        whole = np.broadcast_shapes(tuple(left), tuple(right))
    except ValueError:
        return
    axes = evaluate("BroadcastGradientArgs", {}, [np.array(left, np.int32), np.array(right, np.int32)])
    for shape, over in zip((left, right), axes, strict=True):
        assert np.zeros(whole).sum(axis=tuple(over.tolist())).size == np.prod(shape, dtype=int)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Fill", ([1 << 40, 64], 0.0)),
        ("Tile", ([[1.0]], [1 << 40, 64])),
        ("Range", (0, 1 << 60, 1)),
        ("DynamicStitch", ([1 << 60], [5])),
    ],
)
def test_a_value_that_would_be_large_is_not_computed(op, inputs):
    # Computing any of these would need more memory than a machine has.
    assert known(op, *inputs) is None
