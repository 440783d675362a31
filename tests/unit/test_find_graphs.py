"""Where the graphs of a file lie, of bytes written here."""

import os

import pytest

from lowtide.errors import LowtideError
from lowtide.sources.graphs.find_graphs import FoundGraphs, Span, find_graphs
from lowtide.sources.graphs.found_graphs import CUT
from tests.unit.protos import CPU, FIRST_EVENT, GRAPH, VERSIONS, event, events, message, node, number, record, summary

OTHER = node("a", "Const", device=CPU) + VERSIONS


@pytest.fixture
def find(tmp_path):
    """Write a file, and return what is found in it: the kind, each graph's label, bytes and notes, and the notes."""

    def find(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        found = find_graphs(path, tmp_path / "cache")
        assert all(span.path == path for span in found.spans)
        graphs = [(span.label, data[span.start : span.end], span.notes) for span in found.spans]
        return found.kind, graphs, found.notes

    return find


def test_the_graph_of_an_event_file(find):
    assert find("events.out.tfevents.1.host", events(event(message(4, GRAPH)))) == (
        "events",
        [("graph", GRAPH, ())],
        (),
    )


def test_a_span_has_exact_offsets(tmp_path):
    path = tmp_path / "tfevents"
    path.write_bytes(events(event(message(4, GRAPH))))
    # Behind the first record come a header of 12, a time of 9, and a tag and a length of one byte each.
    start = 12 + len(FIRST_EVENT) + 4 + 12 + 9 + 2
    assert find_graphs(path, tmp_path) == FoundGraphs("events", (Span(start, start + len(GRAPH), "graph", path=path),))


def test_an_event_file_is_known_by_its_content(find):
    assert find("log", events(event(message(4, GRAPH))))[0] == "events"


def test_graphs_of_one_name_are_distinguished(find):
    graphs = find("tfevents", events(event(message(4, GRAPH)), event(message(4, OTHER))))[1]
    assert graphs == [("graph", GRAPH, ()), ("graph (2)", OTHER, ())]


def test_a_meta_graph_in_an_event_file(find):
    meta = message(1, message(4, "train")) + message(2, GRAPH)
    assert find("tfevents", events(event(message(9, meta))))[1] == [("meta graph · train", GRAPH, ())]


def test_tagged_run_metadata(find):
    metadata = message(3, OTHER) + message(3, GRAPH)
    graphs = find("tfevents", events(event(message(8, message(1, "step 7"), message(2, metadata)))))[1]
    assert graphs == [("step 7 · partition 1 of 2 (CPU:0)", OTHER, ()), ("step 7 · partition 2 of 2", GRAPH, ())]


@pytest.mark.parametrize("plugin", ["graph_run_metadata", "graph_run_metadata_graph"])
def test_what_trace_export_writes(find, plugin):
    remote = node("a", "Const", device="/job:worker/replica:0/task:1/device:GPU:0")
    function = message(1, OTHER) + message(1, remote) + message(2, GRAPH) + message(3, OTHER)
    # As TensorFlow does it, the partitions stand in the metadata twice.
    metadata = message(3, OTHER) + message(3, remote) + message(4, function)
    assert find("tfevents", events(summary("train_step", plugin, metadata)))[1] == [
        ("train_step · before optimization", GRAPH, ()),
        ("train_step · after optimization", OTHER, ()),
        ("train_step · partition 1 of 2 (CPU:0)", OTHER, ()),
        ("train_step · partition 2 of 2 (/job:worker/replica:0/task:1/device:GPU:0)", remote, ()),
    ]


def test_functions_of_one_trace_are_numbered(find):
    metadata = message(4, message(2, GRAPH)) + message(4, message(2, OTHER))
    assert find("tfevents", events(summary("step", "graph_run_metadata", metadata)))[1] == [
        ("step · function 1 of 2 · before optimization", GRAPH, ()),
        ("step · function 2 of 2 · before optimization", OTHER, ()),
    ]


def test_other_summaries_are_passed_over(find):
    assert find("tfevents", events(summary("loss", "scalars", message(3, GRAPH)))) == ("events", [], ())


def test_a_bad_checksum_is_noted_on_the_graph(find):
    data = bytearray(events(event(message(4, GRAPH)), event(message(4, OTHER))))
    at = data.index(GRAPH)
    damaged = GRAPH.replace(b"Relu", b"Selu")
    data[at : at + len(GRAPH)] = damaged
    _, graphs, notes = find("tfevents", bytes(data))
    assert graphs == [("graph", damaged, ("the record's checksum does not match",)), ("graph (2)", OTHER, ())]
    assert notes == (f"the checksum of the record at byte {at - 11:,} does not match",)


def test_every_cut_of_an_event_file_gives_what_there_is(find):
    data = events(summary("step", "graph_run_metadata", message(4, message(2, GRAPH) + message(3, OTHER))))
    first, second = data.index(GRAPH), data.index(OTHER)
    for size in range(len(data)):
        _, graphs, notes = find("tfevents", data[:size])
        assert len(notes) == (size not in (0, len(record(FIRST_EVENT))))
        labels = [label for label, _, _ in graphs]
        # As soon as one node is there it is known to be a graph, though what says so stands at the end.
        if size >= first + len(node("x", "Placeholder")):
            assert labels[:1] == ["step · before optimization"]
        if size >= second:
            assert labels == ["step · before optimization", "step · after optimization"]
            assert graphs[0][1:] == (GRAPH, ())
            assert graphs[1][2] == ((CUT,) if size < second + len(OTHER) else ())


def test_damage_inside_a_record_keeps_what_comes_before_it(find):
    content = event(message(4, GRAPH)) + b"\x0b"
    _, graphs, notes = find("tfevents", events(content, event(message(4, OTHER))))
    assert [label for label, _, _ in graphs] == ["graph", "graph (2)"]
    assert len(notes) == 1
    assert "is damaged: unknown wire type 3" in notes[0]


def test_a_file_that_is_made_of_graphs_alone_stays_within_bounds(find):
    metadata = message(3) * 30_000
    _, graphs, notes = find("tfevents", events(*[event(message(8, message(2, metadata)))] * 2))
    assert len(graphs) == 10_000
    assert notes == ("the file has more than 10,000 graphs; the others are left out",)


def test_an_empty_event_file(find):
    assert find("events.out.tfevents.1", b"") == ("events", [], ())


INFO = message(
    1, message(2, message(1, message(1, "Relu"))) + message(4, "serve") + message(4, "gpu") + message(5, "2")
)
META = INFO + message(2, GRAPH) + message(5, message(1, "serving_default")) + message(5, message(1, "train"))
SIGNATURES = ("signatures: serving_default, train",)


def test_a_saved_model(find, tmp_path):
    data = number(1, 1) + message(2, META) + message(2, message(2, OTHER))
    expected = ("saved_model", [("serve, gpu", GRAPH, SIGNATURES), ("graph", OTHER, ())], ())
    assert find("saved_model.pb", data) == expected
    assert find("renamed.pb", data) == expected
    (tmp_path / "renamed.pb").unlink()
    assert find_graphs(tmp_path, tmp_path).spans == find_graphs(tmp_path / "saved_model.pb", tmp_path).spans


def test_a_saved_model_without_a_version(find):
    assert find("model.pb", message(2, META)) == ("saved_model", [("serve, gpu", GRAPH, SIGNATURES)], ())


def test_a_saved_model_that_is_cut_gives_the_graph_so_far(tmp_path):
    path = tmp_path / "saved_model.pb"
    data = number(1, 1) + message(2, META)
    start = data.index(GRAPH)
    path.write_bytes(data[: start + 20])
    (span,) = find_graphs(path, tmp_path).spans
    assert span == Span(start, start + len(GRAPH), "serve, gpu", (CUT,), path=path)


def test_a_saved_model_without_graphs_says_so(find):
    assert find("saved_model.pb", number(1, 1)) == ("saved_model", [], ("it holds no graph",))


def test_a_meta_graph(find):
    expected = ("graph", [("serve, gpu", GRAPH, SIGNATURES)], ())
    assert find("model.ckpt-7.meta", META) == expected
    assert find("model.pb", META) == expected


FUNCTION = message(1, message(1, message(1, "step")) + message(3, node("a", "Const")[2:]))


@pytest.mark.parametrize(
    "data",
    [
        GRAPH,
        OTHER,
        VERSIONS,
        message(2, FUNCTION) + VERSIONS,
        node("x", "Addons>Gelu"),
        node("<script>", "Const"),
        # A damaged node does not hide the others.
        message(1, b"\xff\xff\xff") + GRAPH,
    ],
)
def test_a_graph_is_known_by_its_content(find, data):
    assert find("frozen.pb", data) == ("graph", [("graph", data, ())], ())


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 100, b"\xff" * 100, b"%PDF-1.4 hello", b"PK\x03\x04 no archive", record(b"an example")]
)
def test_other_files_are_refused_in_one_line(find, data):
    with pytest.raises(LowtideError, match=r"no graph is in this file \(given: .*model.pb\); give an event file"):
        find("model.pb", data)


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(LowtideError, match="cannot read the file: No such file"):
        find_graphs(tmp_path / "nothing.pb", tmp_path)
    with pytest.raises(LowtideError, match="no SavedModel is in this folder"):
        find_graphs(tmp_path, tmp_path)
    os.mkfifo(tmp_path / "pipe.pb")
    with pytest.raises(LowtideError, match="not a file that can be read"):
        find_graphs(tmp_path / "pipe.pb", tmp_path)


def test_tides_and_plans_are_recognised(tide_file, plan_file, tmp_path):
    assert find_graphs(tide_file, tmp_path) == FoundGraphs("tide")
    assert find_graphs(plan_file, tmp_path) == FoundGraphs("plan")
    assert find_graphs(tide_file.rename(tmp_path / "renamed"), tmp_path) == FoundGraphs("tide")
    assert find_graphs(plan_file.rename(tmp_path / "renamed"), tmp_path) == FoundGraphs("plan")
