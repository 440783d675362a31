"""Keras models as graphs, from the JSON of Keras 3 and of Keras 2."""

import json
import zipfile

import pytest

from lowtide.errors import LowtideError
from lowtide.sources.graphs.find_graphs import find_graphs
from lowtide.sources.protobuf.wire import read_text, walk, walk_inside
from tests.unit.protos import events, message, number, summary


def nodes_of(span):
    """Each node's name, op and inputs, and its attributes as the bytes of their values."""
    data, nodes = span.path.read_bytes()[span.start : span.end], []
    for start, end in walk_inside(data, 0, len(data), 1):
        texts, attributes = [], {}
        for field, _, first, last in walk(data, start, end):
            if field == 5:
                (_, _, key, key_end), (_, _, value, value_end) = walk(data, first, last)
                attributes[read_text(data, key, key_end)] = data[value:value_end]
            else:
                texts.append(read_text(data, first, last))
        nodes.append((texts[0], texts[1], texts[2:], attributes))
    return nodes


def wiring(span):
    return [node[:3] for node in nodes_of(span)]


@pytest.fixture
def read(tmp_path):
    def read(model, name="model.keras"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("config.json", model if isinstance(model, str | bytes) else json.dumps(model))
        return find_graphs(tmp_path / name, tmp_path / "cache")

    return read


def tensor(layer, output=0, shape=(None, 4)):
    return {
        "class_name": "__keras_tensor__",
        "config": {"shape": list(shape), "dtype": "float32", "keras_history": [layer, 0, output]},
    }


def layer(class_name, name, *calls, **config):
    nodes = [{"args": list(call), "kwargs": {}} for call in calls]
    return {"class_name": class_name, "name": name, "config": {"name": name} | config, "inbound_nodes": nodes}


def functional(name, layers, inputs, outputs, *calls):
    made = layer("Functional", name, *calls, layers=layers)
    made["config"] |= {"input_layers": inputs, "output_layers": outputs}
    return made


def sequential(name, *layers):
    return {"class_name": "Sequential", "config": {"name": name, "layers": list(layers)}}


def test_a_functional_model(read):
    found = read(
        functional(
            "net",
            [
                layer("InputLayer", "x", batch_shape=[None, 4], dtype="float32"),
                layer("Dense", "a", [tensor("x")], units=3, activation="relu", use_bias=True, seed=None),
                layer("Concatenate", "both", [[tensor("x"), tensor("a", shape=(None, 3))]], axis=-1),
                layer("Attention", "attention", [tensor("a", shape=(None, 3)), 2.0]),
            ],
            ["x", 0, 0],
            [["both", 0, 0], ["attention", 0, 0]],
        )
    )
    assert (found.kind, found.notes) == ("keras", ())
    (span,) = found.spans
    assert span.label == "Keras model net"
    shape = message(1, message(7, message(2, number(1, -1)), message(2, number(1, 3))))
    x_shape = message(1, message(7, message(2, number(1, -1)), message(2, number(1, 4))))
    units = {"units": message(2, "3"), "activation": message(2, "relu"), "use_bias": message(2, "true")}
    assert nodes_of(span) == [
        (
            "x",
            "InputLayer",
            [],
            {"batch_shape": message(2, "[null, 4]"), "dtype": number(6, 1), "_output_shapes": x_shape},
        ),
        ("a", "Dense", ["x"], units | {"_output_shapes": shape}),
        ("both", "Concatenate", ["x", "a"], {"axis": message(2, "-1")}),
        ("attention", "Attention", ["a"], {}),
    ]


def test_nested_models_are_scopes(read):
    inner = functional(
        "inner",
        [layer("InputLayer", "in"), layer("Dense", "d1", [tensor("in")]), layer("Split", "d2", [tensor("in")])],
        ["in", 0, 0],
        [["d1", 0, 0], ["d2", 0, 1]],
        [tensor("x")],
    )
    chain = sequential("chain", layer("InputLayer", "start"), layer("Dense", "end"))
    chain |= {"name": "chain", "inbound_nodes": [{"args": [tensor("inner", 1, (None, 9))], "kwargs": {}}]}
    last = layer("Add", "add", [[tensor("inner"), tensor("chain")]])
    found = read(functional("net", [layer("InputLayer", "x"), inner, chain, last], ["x", 0, 0], ["add", 0, 0]))
    (span,) = found.spans
    assert wiring(span) == [
        ("x", "InputLayer", []),
        ("inner/in", "InputLayer", ["x"]),
        ("inner/d1", "Dense", ["inner/in"]),
        ("inner/d2", "Split", ["inner/in"]),
        ("chain/start", "InputLayer", ["inner/d2:1"]),
        ("chain/end", "Dense", ["chain/start"]),
        ("add", "Add", ["inner/d1", "chain/end"]),
    ]
    # The shape of the second output is known, that of the first is not.
    shapes = message(1, message(7, number(3, 1)), message(7, message(2, number(1, -1)), message(2, number(1, 9))))
    assert nodes_of(span)[3][3] == {"_output_shapes": shapes}


def test_a_sequential_model_is_a_chain(read):
    built = layer("Dense", "b") | {"build_config": {"input_shape": [None, 7]}}
    (span,) = read(sequential("chain", layer("Dense", "a"), built)).spans
    assert wiring(span) == [("a", "Dense", []), ("b", "Dense", ["a"])]
    assert nodes_of(span)[0][3] == {
        "_output_shapes": message(1, message(7, message(2, number(1, -1)), message(2, number(1, 7))))
    }


def test_a_layer_that_is_called_twice_is_one_node(read):
    shared = layer("Dense", "shared", [tensor("x")], [tensor("shared")])
    (span,) = read(functional("net", [layer("InputLayer", "x"), shared], ["x", 0, 0], ["shared", 1, 0])).spans
    assert wiring(span)[1] == ("shared", "Dense", ["x", "shared"])
    assert nodes_of(span)[1][3]["calls"] == message(2, "2")


def test_the_json_of_keras_2(read):
    nodes = [[["x", 0, 0, {}], ["a", 0, 1, {"mask": ["m", 0, 0]}]]]
    layers = [
        {"class_name": "InputLayer", "name": "x", "config": {"batch_input_shape": [None, 2]}, "inbound_nodes": []},
        {"class_name": "Dense", "name": "a", "config": {}, "inbound_nodes": [["x", 0, 0, {}]]},
        {"class_name": "Masking", "name": "m", "config": {}, "inbound_nodes": [[["x", 0, 0, {}]]]},
        {"class_name": "Add", "name": "add", "config": {}, "inbound_nodes": nodes},
        {"class_name": "TFOpLambda", "name": "op", "config": {}, "inbound_nodes": [["_CONSTANT_VALUE", -1, 2.0, {}]]},
    ]
    config = {"layers": layers, "input_layers": [["x", 0, 0]], "output_layers": [["add", 0, 0]]}
    (span,) = read({"class_name": "Model", "config": config, "keras_version": "2.9.0"}).spans
    assert span.label == "Keras model"
    assert wiring(span) == [
        ("x", "InputLayer", []),
        ("a", "Dense", ["x"]),
        ("m", "Masking", ["x"]),
        ("add", "Add", ["x", "a:1", "m"]),
        ("op", "TFOpLambda", []),
    ]


def test_settings_are_short_texts(read):
    config = {
        "kernel_initializer": {"class_name": "GlorotUniform", "config": {"seed": None}},
        "dtype": {"class_name": "DTypePolicy", "config": {"name": "mixed_float16"}},
        "vocabulary": ["word"] * 50_000,
        "pool_size": [2, 2],
        "text": "x" * 300,
        "half": "\ud800",
    }
    (span,) = read(sequential("chain", layer("Strange", "s", **config))).spans
    assert nodes_of(span)[0][3] == {
        "kernel_initializer": message(2, "GlorotUniform"),
        "dtype": message(2, "mixed_float16"),
        "vocabulary": message(2, "50,000 values"),
        "pool_size": message(2, "[2, 2]"),
        "text": message(2, "x" * 200 + "…"),
        "half": message(2, "?"),
    }


def test_a_model_in_an_event_file(tmp_path):
    path = tmp_path / "tfevents"
    model = json.dumps(sequential("chain", layer("Dense", "a"))).encode()
    path.write_bytes(events(summary("keras", "graph_keras_model", model), summary("k", "graph_keras_model", b"{")))
    found = find_graphs(path, tmp_path / "cache")
    assert found.kind == "events"
    assert [span.label for span in found.spans] == ["keras · conceptual graph of the Keras model"]
    assert wiring(found.spans[0]) == [("a", "Dense", [])]
    (note,) = found.notes
    assert note.startswith("the description of the Keras model cannot be read: ")


def test_without_a_cache_the_other_graphs_of_an_event_file_are_found(tmp_path):
    (tmp_path / "cache").write_text("a file")
    (tmp_path / "tfevents").write_bytes(events(summary("keras", "graph_keras_model", b"{}")))
    found = find_graphs(tmp_path / "tfevents", tmp_path / "cache")
    assert found.spans == ()
    assert "cannot write a converted graph" in found.notes[0]


@pytest.mark.parametrize("model", [[], {}, "x", {"config": {}}, {"class_name": "Mine", "config": {"units": 3}}])
def test_a_model_that_does_not_name_its_layers(read, model):
    found = read(model)
    assert found.spans == ()
    assert len(found.notes) == 1


@pytest.mark.parametrize("deep", ['{"config":{"layers":[' * 5_000, "[" * 100_000])
def test_json_that_nests_without_end(read, deep):
    found = read(deep)
    assert found.spans == ()
    assert "cannot be read" in found.notes[0]


def test_models_in_models_without_end(read):
    model = layer("Dense", "last")
    for depth in range(60):
        model = sequential(f"m{depth}", model) | {"name": f"m{depth}"}
    (span,) = read(model).spans
    assert len(nodes_of(span)) == 1
    assert "models are nested deeper than 30" in span.notes[0]


def test_a_description_that_unpacks_to_too_much_is_not_read(read):
    found = read(b" " * (40 << 20))
    assert found.notes == ("the description of the Keras model is larger than 32 MiB; it is not read",)


def test_an_event_file_of_models_alone_stays_within_bounds(tmp_path):
    path = tmp_path / "tfevents"
    model = json.dumps(sequential("chain", layer("Dense", "a"))).encode()
    path.write_bytes(events(*[summary("keras", "graph_keras_model", model)] * 150))
    found = find_graphs(path, tmp_path / "cache")
    assert len(found.spans) == len(list((tmp_path / "cache").glob("*.graph"))) == 100
    assert found.notes == ("the file has more than 100 Keras models; the others are left out",)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", b"\x89HDF\r\n\x1a\n"])
def test_a_damaged_archive_says_so(content, tmp_path):
    path = tmp_path / "model.keras"
    path.write_bytes(content)
    found = find_graphs(path, tmp_path / "cache")
    assert (found.kind, found.spans) == ("keras", ())
    assert "its config.json cannot be read" in found.notes[0]


def test_another_archive_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "")
    with pytest.raises(LowtideError, match="no graph is in this file"):
        find_graphs(tmp_path / "other.zip", tmp_path / "cache")
