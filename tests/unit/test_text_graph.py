"""Graphs in text form, written as the bytes they stand for."""

import struct
import sys

import pytest

from lowtide.errors import LowtideError
from lowtide.sources.graphs import text_graph
from lowtide.sources.graphs.find_graphs import find_graphs
from lowtide.sources.graphs.found_graphs import CUT
from lowtide.sources.protobuf.wire import walk_inside
from tests.unit.protos import GRAPH, message, node, number, varint


@pytest.fixture
def read(tmp_path):
    """Write a text, and give its kind, each graph's label, bytes and notes, and the notes of the file."""

    def read(text, name="graph.pbtxt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        found = find_graphs(path, tmp_path / "cache")
        graphs = [(span.label, span.path.read_bytes()[span.start : span.end], span.notes) for span in found.spans]
        return found.kind, graphs, found.notes

    return read


SMALL = """
node { name: "x" op: "Placeholder" }
node {
  name: "y"
  op: "Relu"
  input: "x"
}
versions { producer: 2164 }
"""


def attribute(key, *content):
    return message(5, message(1, key), message(2, *content))


def test_a_graph(read):
    assert read(SMALL) == ("text graph", [("graph", GRAPH, ())], ())


def test_text_is_known_by_its_content(read):
    assert read("\ufeff# a graph\n" + SMALL, "graph.pb") == ("text graph", [("graph", GRAPH, ())], ())


ATTRIBUTES = {
    's: "a\\nb"': message(2, "a\nb"),
    "i: -1": number(3, -1),
    "i: 0x10": number(3, 16),
    "i: 010": number(3, 8),
    "f: 1.5": varint(4 << 3 | 5) + struct.pack("<f", 1.5),
    "f: -inf": varint(4 << 3 | 5) + struct.pack("<f", float("-inf")),
    "f: 1e50": varint(4 << 3 | 5) + struct.pack("<f", float("inf")),
    "f: 2f": varint(4 << 3 | 5) + struct.pack("<f", 2),
    "b: true": number(5, 1),
    "b: false": number(5, 0),
    "type: DT_HALF": number(6, 19),
    "type: DT_FLOAT_REF": number(6, 101),
    "type: 77": number(6, 77),
    "shape { dim { size: -1 } dim { size: 3 name: 'c' } }": message(
        7, message(2, number(1, -1)), message(2, number(1, 3), message(2, "c"))
    ),
    "shape { unknown_rank: true }": message(7, number(3, 1)),
    "list { i: 1 i: 2 i: 300 }": message(1, message(3, b"\x01\x02\xac\x02")),
    "list { i: [1, 2, 300] }": message(1, message(3, b"\x01\x02\xac\x02")),
    "list { type: [DT_FLOAT, DT_INT32] s: ['a', 'b'] }": message(
        1, message(2, "a"), message(2, "b"), message(6, b"\1\3")
    ),
    "list { shape: [{ dim { size: 2 } }, {}] }": message(1, message(7, message(2, number(1, 2))), message(7)),
    "list { }": message(1),
    "func { name: 'f' attr { key: 'T' value { type: DT_INT64 } } }": message(
        10, message(1, "f"), message(2, message(1, "T"), message(2, number(6, 9)))
    ),
    "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 1 } } tensor_content: '\\0\\1' float_val: 1 float_val: 2 }": (
        message(
            8,
            number(1, 1),
            message(2, message(2, number(1, 1))),
            message(4, b"\0\1"),
            message(5, struct.pack("<ff", 1, 2)),
        )
    ),
    "placeholder: 'p'": message(9, "p"),
}


@pytest.mark.parametrize("text", ATTRIBUTES)
def test_every_kind_of_attribute(read, text):
    graph = read(f"node {{ name: 'n' op: 'Op' attr {{ key: 'k' value {{ {text} }} }} }}")[1][0][1]
    assert graph == node("n", "Op", attributes=attribute("k", ATTRIBUTES[text]))


def test_signs_in_texts_are_texts(read):
    text = "node { name: '}' op: \"{\" input: [',', ']', ';'] attr { key: ':' value { s: '<' } } }"
    assert read(text)[1][0][1] == node("}", "{", ",", "]", ";", attributes=attribute(":", message(2, "<")))
    for wrong in ("''", "node { '}' }", "node '{' name: 'x' }"):
        with pytest.raises(LowtideError, match=r"line 1: Expected (identifier|\"{\")"):
            read(wrong)


def test_a_library(read):
    text = """
    library {
      function {
        signature { name: "f" input_arg { name: "x" type: DT_FLOAT } output_arg < name: "y" type_attr: "T" > }
        node_def { name: "n" op: "Relu" input: "x" }
        ret { key: "y" value: "n:activations:0" }
        arg_attr { key: 0 value { attr { key: "a" value { b: true } } } }
      }
      gradient { function_name: "f" gradient_func: "g" }
    }
    """
    graph = read(text)[1][0][1]
    ((start, end),) = walk_inside(graph, 0, len(graph), 2)
    ((first, last),) = walk_inside(graph, start, end, 1)
    assert graph[first:last] == (
        message(
            1, message(1, "f"), message(2, message(1, "x"), number(3, 1)), message(3, message(1, "y"), message(4, "T"))
        )
        + message(3, message(1, "n"), message(2, "Relu"), message(3, "x"))
        + message(4, message(1, "y"), message(2, "n:activations:0"))
        + message(7, number(1, 0), message(2, message(1, message(1, "a"), message(2, number(5, 1)))))
    )
    assert graph[last:end] == message(2, message(1, "f"), message(2, "g"))


def test_unknown_fields_are_passed_over(read):
    text = """
    other: 3; more: [1, "a", -2], 99: 5
    deep { a { b: "}" } [some.where.Type] { x: -inf } list: [{ c: 1 }, { }] }
    node { name: "x" strange < y: 1 > op: "Placeholder" }
    """
    assert read(text)[1] == [("graph", node("x", "Placeholder"), ())]


def test_a_saved_model(read):
    meta = "meta_info_def { tags: 'serve' tags: 'gpu' } graph_def {" + SMALL + "} signature_def { key: 's' value { } }"
    text = (
        "saved_model_schema_version: 1 meta_graphs {"
        + meta
        + "} meta_graphs { graph_def { node { name: 'a' op: 'B' } } }"
    )
    expected = [("serve, gpu", GRAPH, ("signatures: s",)), ("graph", node("a", "B"), ())]
    assert read(text, "saved_model.pbtxt") == ("saved_model", expected, ())
    assert read(meta) == ("text graph", expected[:1], ())


def test_every_cut_gives_the_whole_nodes(read):
    text = SMALL.strip().encode()
    first, second = text.index(b"}") + 1, text.index(b"}", text.index(b"Relu")) + 1
    nodes = GRAPH[: GRAPH.index(node("y", "Relu", "x"))]
    for size in range(first, len(text)):
        _, ((label, graph, notes),), _ = read(text[:size])
        assert label == "graph"
        assert graph == (nodes if size < second else nodes + node("y", "Relu", "x"))
        is_between = not text[size - 1 : size].strip() or size in (first, second)
        assert notes == (() if is_between and text[:size].rstrip().endswith(b"}") else (CUT,))


def test_a_cut_inside_a_function_keeps_its_nodes(read):
    text = "library { function { signature { name: 'f' } node_def { name: 'n' op: 'Op' } node_def { name: 'm'"
    ((_, graph, notes),) = read(text)[1]
    ((start, end),) = walk_inside(graph, 0, len(graph), 2)
    ((first, last),) = walk_inside(graph, start, end, 1)
    assert graph[first:last] == message(1, message(1, "f")) + message(3, message(1, "n"), message(2, "Op"))
    assert notes == (CUT,)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("node }", 'Expected "{"'),
        ("}", "Expected identifier or number, got }"),
        ("node { name: x }", "Expected string but found: 'x'"),
        ("node { name: { } }", "Expected string but found: '{'"),
        ("node: 3", 'Expected "{"'),
        ("version: 1.5", "Couldn't parse integer: 1.5"),
        ("version: 99999999999999999999", "Value out of range"),
        ("version: }", "Couldn't parse integer: }"),
        ("\x00\x01", "Expected identifier or number"),
        ("a {" * 3000 + "}" * 3000, "nested more than 100 deep"),
        ("node { attr { value { b: maybe } } }", 'Expected "true" or "false"'),
        ("node { attr { value { f: yes } } }", "Couldn't parse float: yes"),
        ("node { attr { value { type: DT_NEW } } }", "no value named DT_NEW"),
    ],
)
def test_errors_have_a_line(read, wrong, reason):
    _, ((_, graph, _),), (note,) = read("node { name: 'a' op: 'B' }\n\n" + wrong + "\nnode { name: 'c' op: 'D' }")
    assert graph == node("a", "B")
    assert note.startswith("line 3: ")
    assert reason in note
    with pytest.raises(LowtideError, match=r"no graph is in this text: line 1: .*given: .*graph\.pbtxt"):
        read(wrong)


def test_text_without_a_graph_is_refused(read):
    with pytest.raises(LowtideError, match="it has no field of one"):
        read("embeddings { tensor_name: 'x' }")
    with pytest.raises(LowtideError, match="it has no field of one"):
        read("")


def test_a_converted_graph_is_kept_until_its_file_changes(read, tmp_path):
    read(SMALL)
    (kept,) = (tmp_path / "cache").glob("*.graph")
    before = kept.stat().st_mtime_ns
    find_graphs(tmp_path / "graph.pbtxt", tmp_path / "cache")
    assert kept.stat().st_mtime_ns == before
    read(SMALL + " ")
    (other,) = (tmp_path / "cache").glob("*.graph")
    assert other != kept
    other.write_bytes(b"damaged")
    assert find_graphs(tmp_path / "graph.pbtxt", tmp_path / "cache").spans[0].end == len(GRAPH)
    assert other.read_bytes() == GRAPH
    assert (tmp_path / "cache" / "CACHEDIR.TAG").exists()
    assert not list((tmp_path / "cache").glob("*.part"))


@pytest.mark.parametrize("damage", ["other bytes", "folders", "another index"])
def test_a_damaged_conversion_is_replaced(read, tmp_path, damage):
    read(SMALL)
    (kept,) = (tmp_path / "cache").glob("*.graph")
    if damage == "other bytes":
        kept.write_bytes(bytes(len(GRAPH)))
    elif damage == "another index":
        kept.with_suffix(".json").write_text("[" * 100_000)
    else:
        for path in (tmp_path / "cache").iterdir():
            path.unlink()
            path.mkdir()
    (span,) = find_graphs(tmp_path / "graph.pbtxt", tmp_path / "cache").spans
    assert span.path.read_bytes()[span.start : span.end] == GRAPH


def test_a_cache_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "graph.pbtxt").write_text(SMALL)
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(LowtideError, match="cannot write a converted graph"):
        find_graphs(tmp_path / "graph.pbtxt", tmp_path / "cache")


def test_missing_message_classes_name_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "graph.pbtxt").write_text(SMALL)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    text_graph._load_message_classes.cache_clear()
    with pytest.raises(LowtideError, match=r'pip install "lowtide\[tensorboard\]"'):
        find_graphs(tmp_path / "graph.pbtxt", tmp_path / "cache")


def test_a_text_that_is_too_large_is_refused(tmp_path, monkeypatch):
    (tmp_path / "graph.pbtxt").write_text(SMALL)
    monkeypatch.setattr(text_graph, "_LARGEST_TEXT", 10)
    with pytest.raises(LowtideError, match=r"save it in binary form"):
        find_graphs(tmp_path / "graph.pbtxt", tmp_path / "cache")
