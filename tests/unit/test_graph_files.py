"""What a cut is written as, of graphs of a few nodes."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import networkx
import pytest

from lowtide.atlas.cuts import selection as choose
from lowtide.atlas.cuts.collapse import collapse
from lowtide.atlas.exports.files import write
from lowtide.atlas.exports.networks import to_networkx, to_rustworkx
from lowtide.errors import LowtideError
from lowtide.sources.protobuf.wire import read_fields
from tests.unit.graphdefs import INT32, VERSIONS, call, constant, cut_of, function, library, node

HOSTILE = '<script>"&\\\x01'


@pytest.fixture
def chain(tmp_path):
    return cut_of(
        tmp_path,
        node("a", "Relu", shape=(2,)),
        node("s/b", "Exp", "a", shape=(2,)),
        node("s/c", "Exp", "s/b", shape=(2,)),
        node("d", "Add", "a", "s/c", "^s/b"),
        VERSIONS,
    )


def read(path):
    """A GraphDef: of each node its op, inputs and the bytes of its attributes; and all other fields."""
    nodes, others = {}, []
    for number, content in read_fields(path.read_bytes()):
        if number != 1:
            others.append((number, content))
            continue
        name, op, inputs, attributes = "", "", [], {}
        for field, value in read_fields(content):
            if field == 1:
                name = value.decode()
            elif field == 2:
                op = value.decode()
            elif field == 3:
                inputs.append(value.decode())
            elif field == 5:
                entry = dict(read_fields(value))
                attributes[entry[1].decode()] = entry[2]
        nodes[name] = (op, inputs, attributes)
    return nodes, others


def wires(path):
    return {name: (op, inputs) for name, (op, inputs, _) in read(path)[0].items()}


def test_json(chain, tmp_path):
    path = tmp_path / "out.json"
    write(choose.with_ops(chain, ["Relu", "Exp"]), path, notes=("so",))
    data = json.loads(path.read_text())
    assert data["schema_version"] == 1
    assert data["notes"] == ["so"]
    assert [each["name"] for each in data["nodes"]] == ["a", "s/b", "s/c"]
    assert data["nodes"][0] == {
        "id": 0,
        "name": "a",
        "kind": "node",
        "op": "Relu",
        "dtype": "float32",
        "device": None,
        "phase": "forward",
        "nodes": 1,
        "bytes": 8,
    }
    assert data["edges"][0] == {"source": 0, "target": 1, "count": 1, "control": 0, "bytes": 8, "through": False}


def test_graphml_is_read_by_networkx(chain, tmp_path):
    path = tmp_path / "out.graphml"
    write(chain, path)
    graph = networkx.read_graphml(path)
    assert {data["name"] for _, data in graph.nodes(data=True)} == {"a", "s/b", "s/c", "d"}
    assert graph.number_of_edges() == 5


def test_names_are_data(tmp_path):
    cut = cut_of(tmp_path, node(HOSTILE, "Relu"), node("b", HOSTILE, HOSTILE))
    for ending in ("graphml", "svg"):
        path = tmp_path / f"out.{ending}"
        write(cut, path)
        text = path.read_text()
        ElementTree.fromstring(text)
        assert "<script" not in text
    write(cut, tmp_path / "out.dot")
    assert '\\"&\\\\' in (tmp_path / "out.dot").read_text()
    write(cut, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["nodes"][0]["name"] == HOSTILE


def test_networks(chain):
    graph = to_networkx(choose.sample(chain, 2))
    assert set(graph) == {"a", "s/b", "d"}
    assert graph.edges["s/b", "d"] == {"count": 1, "control": 1, "bytes": 0, "through": False}
    assert graph.nodes["a"]["op"] == "Relu"
    other = to_rustworkx(chain)
    assert [each["name"] for each in other.nodes()] == ["a", "d", "s/b", "s/c"]
    assert other.num_edges() == 5


def test_a_duplicate_name_gives_two_nodes(tmp_path):
    assert len(to_networkx(cut_of(tmp_path, node("a", "Relu"), node("a", "Exp")))) == 2


def test_the_whole_is_copied_byte_by_byte(chain, tmp_path):
    path = tmp_path / "out.pb"
    assert write(chain, path) == ()
    assert path.read_bytes() == (tmp_path / "graph.pb").read_bytes()


def test_pass_through_nodes_are_bypassed(tmp_path):
    cut = cut_of(
        tmp_path,
        node("x", "Split"),
        node("i", "Identity", "x:1"),
        node("j", "Identity", "i"),
        node("y", "Relu", "j"),
    )
    write(choose.forward_only(cut), tmp_path / "out.pb")
    assert wires(tmp_path / "out.pb") == {"x": ("Split", []), "y": ("Relu", ["x:1"])}


def test_a_kept_node_of_the_same_shape_takes_the_place(chain, tmp_path):
    write(choose.with_ops(chain, ["Relu", "Add"]), tmp_path / "out.pb")
    # c could be read from a, but a and d are joined already: c stays as a placeholder.
    nodes = wires(tmp_path / "out.pb")
    assert nodes["d"] == ("Add", ["a", "s/c"])
    assert nodes["s/c"] == ("Placeholder", [])


def test_through_edges_are_wired_by_shape_or_by_waiting(tmp_path):
    cut = cut_of(
        tmp_path,
        node("a", "Relu", shape=(2,)),
        node("b", "Exp", "a", shape=(2,)),
        node("c", "Relu", "b"),
        node("d", "Exp", "c", shape=(3,)),
        node("e", "Relu", "d"),
        VERSIONS,
    )
    written_notes = write(choose.with_ops(cut, ["Relu"]), tmp_path / "out.pb")
    nodes, others = read(tmp_path / "out.pb")
    assert {name: (op, inputs) for name, (op, inputs, _) in nodes.items()} == {
        "a": ("Relu", []),
        "c": ("Relu", ["a"]),
        "e": ("Relu", ["d", "^c"]),
        "d": ("Placeholder", []),
    }
    assert nodes["d"][2] == {"dtype": b"\x30\x01", "shape": b"\x3a\x04\x12\x02\x08\x03"}
    assert others == [(4, b"\x08\xda\x0e")]
    (note,) = written_notes
    assert note.startswith("at the cuts 1 input reads the kept node before, 1 placeholder stands for what was left out")
    assert note.endswith("1 control edge keeps nodes connected")


def test_later_outputs_have_placeholders_of_their_own(tmp_path):
    cut = cut_of(tmp_path, node("s", "TopKV2"), node("s_output_1", "Relu"), node("y", "Relu", "s:1", "s"))
    write(choose.with_ops(cut, ["Relu"]), tmp_path / "out.pb")
    nodes, _ = read(tmp_path / "out.pb")
    assert nodes["y"][1] == ["s_output_1_", "s"]
    assert nodes["s_output_1_"][2]["dtype"] == b"\x30\x03"
    assert nodes["s"][2]["dtype"] == b"\x30\x01"


def test_small_whole_constants_stay_because_shapes_need_them(tmp_path):
    cut = cut_of(
        tmp_path,
        constant("axis", b"\0\0\0\0", (), INT32),
        constant("weights", bytes(64), (16,)),
        node("y", "Sum", "weights", "axis"),
    )
    write(choose.without_constants(cut), tmp_path / "out.pb")
    nodes, _ = read(tmp_path / "out.pb")
    assert {name: op for name, (op, *_) in nodes.items()} == {"y": "Sum", "axis": "Const", "weights": "Placeholder"}
    assert nodes["weights"][2]["shape"] == b"\x3a\x04\x12\x02\x08\x10"


def test_control_edges_and_colocations_of_removed_nodes_are_dropped(tmp_path):
    colocated = node("y", "Relu", "x", "^z", _class="loc:@z")
    cut = cut_of(tmp_path, node("x", "Placeholder"), node("z", "NoOp"), colocated, node("m", "Relu", "nowhere:2"))
    write(choose.with_ops(cut, ["Placeholder", "Relu"]), tmp_path / "out.pb")
    nodes, _ = read(tmp_path / "out.pb")
    assert nodes["y"][1] == ["x"]
    assert "_class" not in nodes["y"][2]
    assert nodes["nowhere"][0] == "Placeholder"


def test_large_attributes_are_emptied(tmp_path):
    cut = cut_of(tmp_path, constant("w", bytes(4000), (1000,)), node("y", "Relu", "w", _long="x" * 2000), VERSIONS)
    written_notes = write(cut, tmp_path / "out.pb", limit_attributes="1KiB")
    nodes, others = read(tmp_path / "out.pb")
    # Dtype and shape of the tensor stay.
    assert nodes["w"][2]["value"] == b"\x42\x09\x08\x01\x12\x05\x12\x03\x08\xe8\x07"
    assert nodes["w"][2]["_too_large_attrs"] == b"\x0a\x07\x12\x05value"
    assert "_long" not in nodes["y"][2]
    assert others == [(4, b"\x08\xda\x0e")]
    assert written_notes == ("2 attributes of more than 1,024 bytes are emptied; such constants read as zeros",)


def test_functions_that_are_called_are_kept_whole(tmp_path):
    inner = function("inner", constant("big", bytes(3000), (750,)))
    outer = function("outer", call("c", "inner", "x"))
    unused = function("unused", node("u", "Relu", "x"))
    cut = cut_of(
        tmp_path,
        node("x", "Placeholder"),
        call("run", "outer", "x"),
        node("y", "Relu", "run"),
        library(unused, outer, inner),
    )
    write(choose.with_ops(cut, ["PartitionedCall"]), tmp_path / "out.pb")
    assert read(tmp_path / "out.pb")[1] == [(2, outer + inner)]
    write(choose.with_ops(cut, ["Placeholder"]), tmp_path / "less.pb")
    assert read(tmp_path / "less.pb")[1] == []
    assert "1 attribute of" in write(cut, tmp_path / "small.pb", limit_attributes=1000)[0]
    assert len((tmp_path / "small.pb").read_bytes()) < 1000


def test_an_output_that_cannot_be_written_is_an_error(chain, tmp_path):
    with pytest.raises(LowtideError, match=r"end it in \.svg"):
        write(chain, tmp_path / "out.gif")
    with pytest.raises(LowtideError, match=r"only a \.pb"):
        write(chain, tmp_path / "out.json", limit_attributes=1)
    with pytest.raises(LowtideError, match="collapsed"):
        write(collapse(chain, 1), tmp_path / "out.pb")
    with pytest.raises(LowtideError, match="cannot write"):
        write(chain, tmp_path / "no" / "out.json")
    body = function("step", node("m", "Relu", "x"))
    cut = choose.within(cut_of(tmp_path, call("run", "step"), library(body)), "step")
    with pytest.raises(LowtideError, match="keeps functions whole"):
        write(cut, tmp_path / "out.pb")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cache", "graph.pb"]


def test_sizes_and_indices_are_never_replaced_by_others_of_the_same_shape(tmp_path):
    """TensorFlow computes shapes from their values, so another value contradicts the shapes in the file."""
    cut = cut_of(
        tmp_path,
        node("x", "Placeholder", shape=(2, 3)),
        node("before", "Shape", "x", dtype=INT32, shape=(2,)),
        node("size", "Maximum", "before", "before", dtype=INT32, shape=(2,)),
        node("reshape", "Reshape", "x", "size", shape=(3, 2)),
    )
    write(choose.with_ops(cut, ["Placeholder", "Shape", "Reshape"]), tmp_path / "out.pb")
    written = wires(tmp_path / "out.pb")
    assert written["reshape"] == ("Reshape", ["x", "size", "^before"])
    assert written["size"] == ("Placeholder", [])


def test_a_removed_constant_is_not_replaced_by_a_node_of_the_same_shape(tmp_path):
    cut = cut_of(
        tmp_path,
        node("x", "Placeholder", shape=(2,)),
        node("middle", "Exp", "x", shape=(2,)),
        node("scale", "Const", shape=(2,)),
        node("product", "Mul", "middle", "scale", shape=(2,)),
    )
    write(choose.with_ops(cut, ["Placeholder", "Mul"]), tmp_path / "out.pb")
    written = wires(tmp_path / "out.pb")
    assert written["product"] == ("Mul", ["x", "scale"])
    assert written["scale"] == ("Placeholder", [])


def test_layers_of_keras_are_not_written_as_ops(tmp_path):
    cut = cut_of(tmp_path, node("dense", "Dense"))
    cut.atlas.source = replace(cut.atlas.source, import_obstacle="its nodes are Keras layers")
    with pytest.raises(
        LowtideError, match="TensorFlow does not import this graph: its nodes are Keras layers"
    ) as raised:
        write(cut, tmp_path / "out.pb")
    assert "\n" not in str(raised.value)
    write(cut, tmp_path / "out.json")


def test_small_values_that_tensorflow_needs_are_not_emptied(tmp_path):
    cut = cut_of(
        tmp_path,
        constant("sizes", bytes(32), (8,), dtype=INT32),
        constant("weights", bytes(32), (8,)),
        node("product", "Einsum", "weights", equation="abcdefghijkl,l->abcdefghijk"),
    )
    write(cut, tmp_path / "out.pb", limit_attributes=20)
    nodes, _ = read(tmp_path / "out.pb")
    assert [name for name, (_, _, attributes) in nodes.items() if "_too_large_attrs" in attributes] == ["weights"]


@pytest.mark.parametrize("name", ["_EagerConst", "a b", "a:b", "scope/b\u00e9ta"])
def test_names_that_tensorflow_refuses_are_named(tmp_path, name):
    cut = cut_of(tmp_path, node("scope/_inner", "Const"), node(name, "Relu", "scope/_inner"))
    with pytest.raises(LowtideError, match=re.escape(name)):
        write(cut, tmp_path / "out.pb")
    # Without that node, the rest is written.
    write(choose.with_ops(cut, ["Const"]), tmp_path / "out.pb")
    assert list(wires(tmp_path / "out.pb")) == ["scope/_inner"]


def test_nodes_with_one_name_are_not_written(tmp_path):
    cut = cut_of(tmp_path, node("x", "Placeholder"), node("x", "Placeholder"), node("y", "Relu", "x"))
    with pytest.raises(LowtideError, match=r"several nodes have this name.*x"):
        write(cut, tmp_path / "out.pb")


def test_an_op_for_which_tensorflow_infers_a_wrong_shape_is_named(tmp_path):
    gradient = node("filter", "_MklNativeConv2DBackpropFilterWithBias", "x")
    cut = cut_of(
        tmp_path, node("x", "Placeholder"), gradient, node("y", "Relu", "filter"), node("bias", "Exp", "filter:1")
    )
    with pytest.raises(LowtideError, match=r"wrong shape.*filter.*before optimization"):
        write(cut, tmp_path / "out.pb")
    # Nothing reads the wrong shape here.
    write(choose.with_ops(cut, ["Placeholder", "_MklNativeConv2DBackpropFilterWithBias", "Relu"]), tmp_path / "out.pb")


def test_placeholders_stand_for_missing_inputs_of_the_whole(tmp_path):
    """TensorFlow imports what is left of a truncated file."""
    cut = cut_of(tmp_path, node("x", "Placeholder"), node("y", "Add", "x", "nowhere"))
    (note,) = write(cut, tmp_path / "out.pb")
    assert wires(tmp_path / "out.pb")["nowhere"] == ("Placeholder", [])
    assert note == "at the cuts 1 placeholder stands for what was left out"
