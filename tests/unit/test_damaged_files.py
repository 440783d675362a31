"""Damaged files are refused or read in part: every reader ends, within its limits."""

import io
import json
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.sources.graphs.find_graphs import find_graphs
from lowtide.sources.graphs.found_graphs import FoundGraphs
from tests.unit.protos import GRAPH, event, events, message, node, number, record, summary

TEXT = b"""
node { name: "x" op: "Placeholder" attr { key: "shape" value { shape { dim { size: -1 } } } } }
library { function { signature { name: "f" } node_def { name: "n" op: "Relu" input: "x" } } }
"""
KERAS = {
    "class_name": "Functional",
    "config": {
        "name": "net",
        "layers": [
            {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [None, 4]}, "inbound_nodes": []},
            {"class_name": "Sequential", "name": "s", "config": {"layers": [{"class_name": "Dense", "config": {}}]}},
            {"class_name": "Dense", "name": "a", "config": {"units": 3}, "inbound_nodes": [[["x", 0, 0, {}]]]},
        ],
        "input_layers": [["x", 0, 0]],
        "output_layers": [["a", 0, 0]],
    },
}
METADATA = message(3, GRAPH) + message(4, message(1, GRAPH) + message(2, GRAPH) + message(3, GRAPH))
META = message(1, message(4, "serve")) + message(2, GRAPH) + message(5, message(1, "serving_default"))
CONTENTS = [
    event(message(4, GRAPH)),
    event(message(9, META)),
    event(message(8, message(1, "run"), message(2, METADATA))),
    summary("step", "graph_run_metadata", METADATA),
    summary("keras", "graph_keras_model", json.dumps(KERAS).encode()),
]


def archive(config):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as out:
        out.writestr("config.json", config)
    return content.getvalue()


FILES = {
    "events.out.tfevents.1": events(*CONTENTS),
    "saved_model.pb": number(1, 1) + message(2, META),
    "model.meta": META,
    "graph.pb": GRAPH + message(2, message(1, message(1, message(1, "f")))) + node("z", "Add", "x", "y"),
    "graph.pbtxt": TEXT,
    "model.keras": archive(json.dumps(KERAS)),
}

# Where to, as a part of the whole, and what: replaced, inserted, left out or doubled.
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(["replace", "insert", "drop", "double"]),
        st.one_of(
            st.binary(max_size=4), st.sampled_from([b"\xff" * 9 + b"\x01", b"\xff" * 8, b"\x80" * 12, b"\n" * 40])
        ),
    ),
    max_size=6,
)


def edit(data, changes):
    for part, what, content in changes:
        at = int(part * len(data))
        behind = at + (0 if what == "insert" else len(content))
        middle = {"drop": b"", "double": data[at:behind] * 2}.get(what, content)
        data = data[:at] + middle + data[behind:]
    return data


def find(name, data):
    """What is found, or None of what is refused; everything found can be cut out of its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            found = find_graphs(path, Path(folder) / "cache")
        except LowtideError:
            return None
        assert isinstance(found, FoundGraphs)
        for span in found.spans:
            assert 0 <= span.start <= span.end < 1 << 50
            assert span.start <= span.path.stat().st_size
            assert span.label.encode()
        return found


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FILES)), edits, st.floats(0, 1))
def test_a_damaged_file_is_read_or_refused(name, changes, kept):
    data = edit(FILES[name], changes)
    find(name, data[: int(len(data) * kept)])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(range(len(CONTENTS))), edits)
def test_a_damaged_event_in_a_sound_record_is_never_refused(which, changes):
    found = find("tfevents", events(edit(CONTENTS[which], changes), event(message(4, GRAPH))))
    assert found is not None
    # Whatever the first event became, the second is there.
    assert found.spans[-1].label.startswith("graph")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["x", "a"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["config", "layers", "name", "class_name", "inbound_nodes", "output_layers", "build_config"]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None)
@given(json_values, st.sampled_from(["config", "layer", "layers", "inbound_nodes", "output_layers"]))
def test_a_keras_model_can_say_anything(value, where):
    model = json.loads(json.dumps(KERAS))
    if where == "config":
        model["config"] = value
    elif where == "layer":
        model["config"]["layers"][1] = value
    elif where == "inbound_nodes":
        model["config"]["layers"][2]["inbound_nodes"] = value
    else:
        model["config"][where] = value
    assert find("model.keras", archive(json.dumps(model))) is not None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["a.pb", "a.pbtxt", "a.meta", "a.keras", "tfevents", "saved_model.pb"]))
def test_any_bytes_are_read_or_refused(data, name):
    find(name, data)
    find(name, record(data))


@pytest.mark.parametrize("name", ["graph.pb", "saved_model.pb", "model.meta"])
def test_messages_in_messages_without_end_cost_nothing(name):
    data = GRAPH
    for _ in range(5_000):
        data = message(2, data) if len(data) < 1 << 20 else data
    find(name, data)
