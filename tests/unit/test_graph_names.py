"""What recorded memory is called."""

import pytest

from lowtide.run.chunks import RecordedChunk
from lowtide.run.graph_names import GraphNames, owners_of
from lowtide.tide.owner import Owner

NAMES = GraphNames(
    nodes={
        "model/dense/MatMul": Owner(op="_MklMatMul", layer="dense", kind="activations"),
        "Const": Owner(op="Const", layer=None, kind="constants"),
    },
    layers=frozenset({"dense"}),
    input_bytes=frozenset({3200}),
)


def row_of(chunk, names=NAMES):
    (row,) = owners_of(chunk, names)
    assert (row.address, row.requested_bytes, row.bytes) == (chunk.address, chunk.requested, chunk.allocated)
    return row


def identity(chunk, names=NAMES):
    row = row_of(chunk, names)
    return row.name, row.op, row.layer, row.kind


def made_by(operation, requested=1000, region="output", **more):
    return RecordedChunk(4096, 1024, requested, operation, region, "float32", (250,), born=0, **more)


def test_a_variable_has_its_python_name():
    place = Owner(
        name="dense/kernel", layer="dense", kind="weights", dtype="float32", shape=(25, 10), bytes=1000, address=4096
    )
    row = row_of(made_by("init/random", owner=place))
    assert (row.name, row.op, row.layer, row.kind) == ("dense/kernel", "Variable", "dense", "weights")
    assert (row.dtype, row.shape) == ("float32", (25, 10))


def test_an_argument_is_an_input():
    place = Owner(name="argument 0", layer=None, kind="input", dtype="int64", shape=(125,), bytes=1000, address=4096)
    row = row_of(made_by("init/random", owner=place))
    assert (row.name, row.op, row.layer, row.kind, row.dtype) == ("argument 0", "_Arg", None, "input", "int64")


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (made_by("model/dense/MatMul"), ("model/dense/MatMul:0", "_MklMatMul", "dense", "activations")),
        (made_by("Const"), ("Const:0", "Const", None, "constants")),
        # What a kernel borrows has the node's name.
        (made_by("model/dense/MatMul", region="temp"), ("model/dense/MatMul", "_MklMatMul", "dense", "workspace")),
        # It has the size of a batch's tensor and no node of the graph makes it: it comes from a data set.
        (made_by("IteratorGetNext", 3200), ("batch", "IteratorGetNext", None, "input")),
        (made_by(None, 3200), ("batch", "data set", None, "input")),
        (made_by("model/dense/MatMul", 3200), ("model/dense/MatMul:0", "_MklMatMul", "dense", "activations")),
        # Nodes that the graph does not have say themselves what they are.
        (made_by("call/model/dense/Relu_3"), ("call/model/dense/Relu_3:0", "Relu", "dense", "activations")),
        (made_by("gradient_tape/model/dense/Mul"), ("gradient_tape/model/dense/Mul:0", "Mul", "dense", "gradients")),
        (made_by("a/gradients/b_grad/MatMul_1"), ("a/gradients/b_grad/MatMul_1:0", "MatMul", None, "gradients")),
        (made_by("RandomUniform"), ("RandomUniform:0", "RandomUniform", None, "other")),
        (made_by("gradients"), ("gradients:0", "gradients", None, "other")),
        (made_by("VarHandleOp", 200, "temp"), ("VarHandleOp", "VarHandleOp", None, "other")),
        (made_by(None), ("array from Python", "unknown", None, "other")),
        (made_by(None, identified=False), ("from before the recording", "unknown", None, "other")),
        (made_by(None, 3200, identified=False), ("from before the recording", "unknown", None, "other")),
    ],
)
def test_the_owner_of_a_chunk(chunk, expected):
    assert identity(chunk) == expected


def test_without_known_origins_the_names_are_used():
    assert identity(made_by("a/gradient_tape/b"), GraphNames()) == ("a/gradient_tape/b:0", "b", None, "gradients")
    assert identity(made_by("model/dense/Relu"), GraphNames()) == ("model/dense/Relu:0", "Relu", None, "other")


def part(name, size):
    return Owner(name, "Add", "dense", "activations", "float32", (size // 4,), size, source="train.py:3")


def test_the_values_of_a_block_fill_it():
    names = GraphNames(blocks={1000: (part("a", 300), part("b", 100), part("c", 499))})
    rows = owners_of(made_by("__inference_step_1", region="temp"), names)
    assert [(row.name, row.requested_bytes, row.source) for row in rows] == [
        ("a", 300, "train.py:3"),
        ("b", 100, "train.py:3"),
        ("c", 499, "train.py:3"),
    ]
    assert sum(row.bytes for row in rows) == 1024
    ends = [row.address + row.bytes for row in rows]
    assert [row.address for row in rows] == [4096, *ends[:-1]]
    assert ends[-1] == 4096 + 1024
    assert all(row.bytes >= row.requested_bytes for row in rows)


def test_a_variable_of_the_size_of_a_block_is_not_a_block():
    names = GraphNames(blocks={1000: (part("a", 300),)})
    place = Owner(
        name="dense/kernel", layer="dense", kind="weights", dtype="float32", shape=(25, 10), bytes=1000, address=4096
    )
    assert identity(made_by("x", owner=place), names)[0] == "dense/kernel"


def test_a_block_that_nothing_fills_is_one_row():
    names = GraphNames(blocks={1000: ()})
    assert identity(made_by("x"), names) == ("temporary block", "XlaLaunch", None, "workspace")


def test_a_buffer_of_a_rewritten_sum_has_the_name_of_the_sum():
    assert identity(made_by("dense/AddN_5/tmp_var_zeros"))[:2] == ("dense/AddN_5:0", "AddN")


def test_a_folded_constant_of_a_batchs_size_is_a_constant():
    names = GraphNames(input_bytes=frozenset({1000}))
    assert identity(made_by("gradient_tape/sub/_0__cf__0"), names) == (
        "gradient_tape/sub:0", "Const", None, "constants",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("node", "variable", "kind"),
    [
        ("w/Initializer/random_uniform/RandomUniform", "w", "weights"),
        ("dense/kernel/Assign", "dense/kernel", "weights"),
        ("w/Adam/Initializer/zeros", "w/Adam", "optimizer"),
        ("w/Adam_1/Assign", "w/Adam_1", "optimizer"),
        ("beta1_power/initial_value", "beta1_power", "optimizer"),
    ],
)
def test_variables_of_a_session_are_known_by_their_initial_values(node, variable, kind):
    """A session's variables have no addresses in Python; they take over the buffers of these nodes."""
    for region in ("output", "temp"):
        assert identity(made_by(node, region=region)) == (variable, "Variable", None, kind)
