"""The index of a graph: exact numbers on graphs of a few nodes, written byte by byte."""

import os

import numpy as np
import pytest

from lowtide.atlas.atlas import Source
from lowtide.atlas.index.references import CONTROL, MISSING
from lowtide.atlas.index_cache import build_atlas, find_atlas, open_atlas
from lowtide.atlas.node_details import node_details
from lowtide.atlas.node_message import SHOWN_BYTES
from lowtide.atlas.search import node_bytes
from lowtide.errors import LowtideError
from lowtide.program.dtypes import dtype_name
from tests.unit.graph_bytes import FLOAT, INT32, TRAINING, attribute, function, shape, typed
from tests.unit.protos import message, node, number


def test_every_scope_is_a_range_and_a_scopes_own_node_lies_in_it(atlas_of):
    atlas = atlas_of(*TRAINING)
    assert atlas.names(range(len(atlas))) == [
        "x", "lr", "dense/MatMul", "dense/Less", "dense/kernel", "dense/kernel/Read", "gradient_tape/MatMul",
        "adam/apply",
    ]  # fmt: skip
    dense = atlas.find_scope("dense")
    assert (atlas.scope_first[dense], atlas.scope_last[dense], atlas.scope_direct[dense]) == (2, 6, 2)
    assert [atlas.scope_name(int(child)) for child in atlas.children(dense)] == ["dense/kernel"]
    assert atlas.position.tolist() == [0, 6, 3, 4, 1, 2, 5, 7]
    assert [atlas.find(name) for name in ("dense/kernel", "dense/kernel/Read", "x", "dense", "missing")] == [4, 5, 0, None, None]  # noqa: E501  # fmt: skip


def test_inputs_ports_waits_and_readers(atlas_of):
    atlas = atlas_of(*TRAINING)
    apply = atlas.find("adam/apply")
    assert atlas.names(atlas.inputs_of(apply)) == ["dense/kernel", "gradient_tape/MatMul", "lr", "dense/Less"]
    assert atlas.ports_of(apply).tolist() == [0, 0, 0, CONTROL]
    assert atlas.ports_of(atlas.find("dense/Less")).tolist() == [0, 1]
    assert atlas.names(atlas.readers_of(0)) == ["dense/MatMul", "dense/Less", "gradient_tape/MatMul"]
    assert atlas.edge_count == 11
    assert atlas.notes == ()


def test_dtypes_and_bytes_of_outputs(atlas_of):
    atlas = atlas_of(*TRAINING)
    names, sizes = atlas.names(range(len(atlas))), node_bytes(atlas).tolist()
    found = {name: (atlas.dtype_of(row), sizes[row]) for row, name in enumerate(names)}
    assert found["dense/MatMul"] == ("float32", 32)
    assert found["dense/Less"] == ("bool", 8)
    assert found["dense/kernel"] == ("resource", 160)
    assert found["adam/apply"] == (None, 0)


@pytest.mark.parametrize(
    ("op", "attributes", "dtype"),
    [
        # A file without the attributes that equal their defaults, and one with all.
        ("ArgMax", {"T": FLOAT}, "int64"),
        ("ArgMax", {"T": FLOAT, "output_type": INT32}, "int32"),
        ("Shape", {"T": FLOAT}, "int32"),
        ("Where", {"T": FLOAT}, "int64"),
        ("NonMaxSuppressionV3", {"T": FLOAT, "T_threshold": FLOAT}, "int32"),
        ("NextAfter", {}, "float32"),
        ("NotAnOpOfTensorFlow", {"T": FLOAT, "out_type": INT32}, "int32"),
        ("NotAnOpOfTensorFlow", {}, None),
    ],
)
def test_the_dtype_of_an_output_is_that_of_its_declaration(atlas_of, op, attributes, dtype):
    (found,) = atlas_of(
        node("a", op, attributes=b"".join(attribute(key, number(6, each)) for key, each in attributes.items()))
    ).dtype
    assert (dtype_name(int(found)) if found else None) == dtype


def test_a_shape_that_is_open_has_no_bytes(atlas_of):
    atlas = atlas_of(
        node("a", "Relu", attributes=typed(FLOAT, shape(-1, 3))),
        node("b", "Relu", attributes=typed(FLOAT, number(3, 1))),
        node("c", "Split", attributes=typed(INT32, shape(5), shape(2, 2), shape(-1))),
    )
    assert node_bytes(atlas).tolist() == [0, 0, 36]
    assert atlas.column("tensor_sized").tolist() == [False, False, True, True, False]


def test_every_node_has_a_phase(atlas_of):
    atlas = atlas_of(*TRAINING)
    phases = {name: atlas.phase_of(row) for row, name in enumerate(atlas.names(range(len(atlas))))}
    assert phases == {
        "x": "forward", "dense/MatMul": "forward", "dense/Less": "forward", "dense/kernel": "forward",
        "dense/kernel/Read": "forward", "gradient_tape/MatMul": "backward", "lr": "optimizer",
        "adam/apply": "optimizer",
    }  # fmt: skip


def test_functions_are_parts_with_arguments_and_results(atlas_of):
    body = [node("relu", "Relu", "x"), node("out", "Identity", "relu:activations:0")]
    call = node("call", "PartitionedCall", "x", attributes=attribute("f", message(10, message(1, "step"))))
    library = message(2, function("step", ["x"], body, {"y": "out:output:0"}), function("unused", [], [], {}))
    atlas = atlas_of(node("x", "Placeholder"), call, library)
    assert atlas.parts == ["", "step", "unused"]
    assert [atlas.part_range(part) for part in range(3)] == [(0, 2), (2, 6), (6, 6)]
    assert atlas.names(range(2, 6)) == ["x", "relu", "out", "y"]
    assert [atlas.op_of(row) for row in range(2, 6)] == ["_Arg", "Relu", "Identity", "_Retval"]
    assert [atlas.inputs_of(row).tolist() for row in range(2, 6)] == [[], [2], [3], [4]]
    assert (atlas.find("x"), atlas.find("x", 1), atlas.find("relu")) == (0, 2, None)
    assert atlas.calls_of(1) == [1]
    assert atlas.part_of(3) == 1


def test_damage_is_noted_and_the_rest_is_read(atlas_of):
    atlas = atlas_of(node("a", "Relu", "nowhere"), node("b", "Relu", "a"), node("b", "Relu"), node("", "NoOp"))
    assert atlas.inputs_of(0).tolist() == [MISSING]
    assert atlas.notes == (
        "1 node has no name",
        "1 input names a node that does not exist",
        "1 node has the same name as another",
    )
    assert node_details(atlas, 0)["inputs"][0] == {
        "name": "nowhere", "op": None, "port": 0, "control": False, "bytes": None, "missing": True,
    }  # fmt: skip


def test_cycles_are_counted(atlas_of):
    assert atlas_of(node("a", "Add", "b"), node("b", "Add", "a"), node("c", "Relu")).notes == (
        "2 nodes are on a cycle or depend on one",
    )


def test_nodes_in_any_order_are_not_a_cycle(atlas_of):
    assert atlas_of(node("b", "Relu", "a"), node("a", "Const")).notes == ()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_file_that_is_cut_is_read_as_far_as_it_goes(atlas_of, cut):
    whole = b"".join(TRAINING)
    atlas = atlas_of(whole, cut=len(whole) - cut)
    assert atlas.names(range(len(atlas)))[0] == "x"
    assert len(atlas) == 7
    assert any("cut" in note for note in atlas.notes)


def test_scopes_ten_thousand_deep(atlas_of):
    name = "/".join(["s"] * 10_000)
    atlas = atlas_of(node(name, "NoOp"), node(f"{name}/leaf", "NoOp"))
    assert sorted(atlas.names(range(2)), key=len) == [name, f"{name}/leaf"]


def test_a_node_with_ten_thousand_inputs(atlas_of):
    names = [f"n{number}" for number in range(10_059)]
    atlas = atlas_of(*(node(name, "NoOp") for name in names), node("all", "NoOp", *(f"^{name}" for name in names)))
    assert atlas.inputs_of(len(names)).tolist() == list(range(len(names)))
    details = node_details(atlas, len(names), inputs_from=10_050)
    assert (details["input_count"], len(details["inputs"])) == (10_059, 9)


def test_names_longer_than_the_table_of_hashes(atlas_of):
    names = ["a" * 300, "a" * 299 + "b", "b" * 256 + "a" * 300, "a" * 44 + "b" * 256 + "a" * 256]
    atlas = atlas_of(*(node(name, "NoOp") for name in names))
    assert [atlas.find(name) for name in names] == [0, 1, 2, 3]


def test_large_constants_are_shown_by_their_size(atlas_of):
    content = np.arange(4000, dtype=np.float32).tobytes()
    tensor = number(1, FLOAT) + message(2, shape(4000)) + message(4, content)
    value = attribute("value", message(8, tensor)) + attribute("dtype", number(6, FLOAT))
    atlas = atlas_of(node("c", "Const", attributes=value))
    details = node_details(atlas, 0)
    summaries = {each["name"]: each for each in details["attributes"]}
    assert summaries["value"]["text"] == "float32 4000: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"
    assert summaries["value"]["folded"] is True
    assert summaries["value"]["bytes"] > SHOWN_BYTES
    assert node_bytes(atlas)[0] == 16_000


def test_an_index_is_used_again_until_the_file_changes(tmp_path):
    path, cache = tmp_path / "graph.pb", tmp_path / "cache"
    path.write_bytes(node("a", "Relu"))
    source = Source(path, 0, path.stat().st_size)
    assert find_atlas(source, cache) is None
    built = build_atlas(source, cache=cache)
    assert find_atlas(source, cache).folder == built.folder
    path.write_bytes(node("b", "Relu"))
    assert find_atlas(source, cache) is None
    assert open_atlas(source, cache=cache).name(0) == "b"


def test_an_empty_graph(atlas_of):
    atlas = atlas_of(b"", message(4, number(1, 1)))
    assert (len(atlas), atlas.edge_count, atlas.notes) == (0, 0, ())


def test_memory_that_is_given_back_is_read_again(atlas_of):
    atlas = atlas_of(*TRAINING)
    before = atlas.op.tolist(), atlas.texts.tolist(), atlas.names(range(len(atlas)))
    atlas.release()
    assert (atlas.op.tolist(), atlas.texts.tolist(), atlas.names(range(len(atlas)))) == before


def test_indexes_that_were_not_used_for_longest_make_room(tmp_path, monkeypatch):
    cache = tmp_path / "cache"

    def source(name):
        path = tmp_path / name
        path.write_bytes(node(name, "NoOp"))
        return Source(path, 0, path.stat().st_size)

    sources = [source(name) for name in ("one", "two", "three")]
    for age, each in zip((3, 2), sources, strict=False):
        header = build_atlas(each, cache=cache).folder / "header.json"
        os.utime(header, (1_000_000 - age, 1_000_000 - age))
    size = sum(file.stat().st_size for file in build_atlas(sources[2], cache=cache).folder.iterdir())
    assert all(find_atlas(each, cache) for each in sources)
    # "two" has been used last but one; there is room for two and a half.
    os.utime(find_atlas(sources[1], cache).folder / "header.json")
    monkeypatch.setenv("LOWTIDE_CACHE_LIMIT", str(int(size * 2.5)))
    os.utime(find_atlas(sources[0], cache).folder / "header.json", (5, 5))
    build_atlas(sources[2], cache=cache)
    assert [find_atlas(each, cache) is not None for each in sources] == [False, True, True]
    monkeypatch.setenv("LOWTIDE_CACHE_LIMIT", "1")
    assert build_atlas(sources[2], cache=cache).name(0) == "three"
    assert [find_atlas(each, cache) is not None for each in sources] == [False, False, True]
    monkeypatch.setenv("LOWTIDE_CACHE_LIMIT", "much")
    with pytest.raises(LowtideError, match="much"):
        build_atlas(sources[2], cache=cache)
