"""The graphs that a SavedModel serves, on SavedModels of a few nodes."""

import pytest

from lowtide.atlas.atlas import Source
from lowtide.atlas.index_cache import build_atlas
from lowtide.sources.graphs.find_graphs import find_graphs
from tests.unit.graph_bytes import attribute, function
from tests.unit.protos import message, node


def calls(name: str, called: str, *inputs: str) -> bytes:
    return node(name, "StatefulPartitionedCall", *inputs, attributes=attribute("f", message(10, message(1, called))))


def signature(name: str, *outputs: str) -> bytes:
    """An entry of `signature_def`: the tensors that a signature returns."""
    infos = b"".join(message(2, message(1, output), message(2, message(1, output))) for output in outputs)
    return message(5, message(1, name), message(2, infos))


def wrapper(name: str, called: str) -> bytes:
    return function(name, ["x"], [calls("call", called, "x"), node("out", "Identity", "call:output:0")], {})


MAIN = (
    node("x", "Placeholder"),
    calls("call", "wrap_b", "x"),
    calls("call_1", "wrap_a", "x"),
    node("save/SaveV2", "SaveV2", "x"),
)
LIBRARY = message(
    2,
    wrapper("wrap_a", "a"),
    wrapper("wrap_b", "b"),
    function("a", ["x"], [node("relu", "Relu", "x")], {}),
    function("b", ["x", "w"], [node("top", "TopKV2", "x"), calls("inner", "helper", "top:indices:0")], {}),
    function("helper", ["x"], [node("sin", "Sin", "x")], {}),
    function("__inference__traced_save_1", [], [node("s", "SaveV2")], {}),
)


@pytest.fixture
def graphs_of(tmp_path):
    def find(*fields: bytes) -> dict[str, tuple[list[str], list[str]]]:
        """The names of the nodes of the main graph and of the functions, for each graph in the file."""
        path = tmp_path / "saved_model.pb"
        path.write_bytes(message(2, *fields))
        found = {}
        for span in find_graphs(path, tmp_path / "cache").spans:
            atlas = build_atlas(Source(span.path, span.start, span.end), cache=tmp_path / "cache")
            low, high = atlas.part_range(0)
            found[span.label] = (atlas.names(range(low, high)), atlas.parts[1:])
        return found

    return find


TAGS = message(1, message(4, "serve"))


def test_the_default_signature_comes_first_and_the_whole_graph_last(graphs_of):
    found = graphs_of(
        TAGS,
        message(2, *MAIN, LIBRARY),
        signature("alpha", "call_1:0"),
        signature("serving_default", "call:0", "call:1"),
        signature("__saved_model_init_op", "save/SaveV2"),
    )
    assert list(found) == ["serve · serving_default", "serve · alpha", "serve"]
    # The wrapper of a signature is skipped, and only functions that are called are kept.
    assert found["serve · serving_default"] == (["x", "w", "top", "inner"], ["helper"])
    assert found["serve · alpha"] == (["x", "relu"], [])
    assert len(found["serve"][1]) == 6


def test_without_signatures_each_function_that_no_other_calls_is_a_graph(graphs_of):
    found = graphs_of(TAGS, message(2, *MAIN, LIBRARY))
    assert list(found) == ["serve · wrap_a", "serve · wrap_b", "serve"]


def test_functions_of_hash_tables_and_gradients_come_after_those_of_the_model(graphs_of):
    names = ["__inference__creator_1", "__inference__initializer_2", "__inference__destroyer_3",
             "__inference_internal_grad_fn_4", "__inference_score_6", "__inference___call___5"]  # fmt: skip
    library = message(2, *(function(name, ["x"], [node("relu", "Relu", "x")], {}) for name in names))
    found = [label.removeprefix("serve · ") for label in graphs_of(TAGS, message(2, *MAIN[:1], library))]
    assert found[:2] == ["__inference___call___5", "__inference_score_6"]
    assert set(found[2:]) == {*names[:4], "serve"}


def test_a_signature_of_nodes_is_the_graph_that_they_need(graphs_of):
    nodes = [
        node("save/SaveV2", "SaveV2", "w"),
        node("x", "Placeholder"),
        node("w", "VarHandleOp"),
        node("read", "ReadVariableOp", "w", "^init"),
        node("init", "NoOp"),
        node("y", "MatMul", "x", "read:0"),
        node("loss", "Sum", "y"),
    ]
    found = graphs_of(TAGS, message(2, *nodes), signature("serving_default", "y:0"))
    assert found["serve · serving_default"] == (["x", "w", "read", "init", "y"], [])


@pytest.mark.parametrize("outputs", [["nowhere:0"], []])
def test_a_signature_that_names_no_node_is_left_out(graphs_of, outputs):
    found = graphs_of(TAGS, message(2, node("x", "Placeholder")), signature("serving_default", *outputs))
    assert list(found) == ["serve"]


def test_functions_that_call_each_other_end(graphs_of):
    library = message(2, wrapper("wrap_a", "wrap_b"), wrapper("wrap_b", "wrap_a"))
    found = graphs_of(TAGS, message(2, calls("call", "wrap_a"), library), signature("serving_default", "call:0"))
    assert list(found) == ["serve · serving_default", "serve"]


def test_without_a_cache_the_whole_graph_is_found(tmp_path):
    path = tmp_path / "saved_model.pb"
    path.write_bytes(message(2, TAGS, message(2, *MAIN, LIBRARY), signature("serving_default", "call:0")))
    (tmp_path / "cache").write_text("no folder")
    found = find_graphs(path, tmp_path / "cache")
    assert [span.label for span in found.spans] == ["serve"]
    assert found.notes == ("its signatures are not shown: cannot write a converted graph: File exists",)
