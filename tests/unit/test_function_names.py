"""What the functions of a traced run are called, and how many nodes they have."""

import pytest

from lowtide.atlas.atlas import Source
from lowtide.atlas.index_cache import build_atlas
from lowtide.sources.graphs.find_graphs import find_graphs
from lowtide.sources.graphs.function_names import count_nodes, name_function, readable_name
from tests.unit.graph_bytes import TRAINING, function
from tests.unit.protos import CPU, events, message, node, summary

STEP = [node(f"layer_{number}/MatMul", "MatMul", "x", "x") for number in range(6)]
CALLING = (
    node("x", "_Arg")
    + node("get", "IteratorGetNext", "x")
    + node("call", "StatefulPartitionedCall", "get")
    + message(2, function("__inference_train_step_844", ["x"], STEP, {"loss": "layer_5/MatMul:0"}))
)


@pytest.mark.parametrize(
    ("graph", "name"),
    [
        (node("x", "_Arg") + node("ReadVariableOp", "ReadVariableOp", "x") + node("y", "_Retval"), "ReadVariableOp"),
        (CALLING, "train_step"),
        (b"".join(TRAINING), "dense, gradient_tape, adam"),
        (node("a", "Const") + node("b", "Const") + node("c", "Mul", "a", "b"), "Mul"),
        (node("a", "Mul") + node("b", "Mul") + node("c", "Add", "a"), "Mul"),
        (node("x", "_Arg") + node("y", "_Retval", "x"), None),
        (b"", None),
        (CALLING[:-3], "IteratorGetNext"),
    ],
    ids=["one op", "one function", "scopes", "constants", "most frequent", "border", "empty", "cut"],
)
def test_a_function_is_called_by_what_is_in_it(graph, name):
    assert name_function(graph, 0, len(graph)) == name


def test_names_of_functions_as_their_authors_wrote_them():
    assert readable_name("__inference_train_step_844") == "train_step"
    assert readable_name("__forward_call_12") == "call"
    assert readable_name("__backward_call_12") == "call (gradients)"
    assert readable_name("while_body_2_17") == "while_body_2"
    assert readable_name("_7") == "_7"


@pytest.mark.parametrize("graph", [CALLING, b"".join(TRAINING)], ids=["with a function", "plain"])
def test_nodes_are_counted_as_the_index_counts_them(tmp_path, graph):
    path = tmp_path / "graph.pb"
    path.write_bytes(graph)
    atlas = build_atlas(Source(path, 0, len(graph)), cache=tmp_path / "cache")
    assert count_nodes(graph, 0, len(graph)) == len(atlas)


def test_graphs_of_one_function_are_versions_of_each_other(tmp_path):
    one_op = node("v", "VarHandleOp", device=CPU) + node("y", "_Retval", "v", device=CPU)
    functions = b"".join(
        message(4, message(2, before) + message(3, after) + message(1, after))
        for before, after in ((one_op, one_op), (CALLING, b"".join(TRAINING[:6])))
    )
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(events(summary("batch_2", "graph_run_metadata", functions)))
    spans = find_graphs(path, tmp_path).spans
    assert [(span.tag, *span.function) for span in spans] == [
        ("batch_2", 1, "VarHandleOp", "before", None),
        ("batch_2", 1, "VarHandleOp", "after", None),
        ("batch_2", 1, "VarHandleOp", "partition", "CPU:0"),
        ("batch_2", 2, "train_step", "before", None),
        ("batch_2", 2, "train_step", "after", None),
        ("batch_2", 2, "train_step", "partition", None),
    ]
