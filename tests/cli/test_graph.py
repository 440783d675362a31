"""lowtide graph, as a person types it; without TensorFlow."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import networkx
import pytest
from PIL import Image

import lowtide as package
from tests.unit.graphdefs import VERSIONS, constant, node
from tests.unit.protos import event, events, message

BLOCKS = 12


def block(number: int) -> bytes:
    scope, before = f"tower/block_{number}", f"tower/block_{number - 1}/relu" if number else "x"
    return b"".join(
        (
            constant(f"{scope}/weights", bytes(4096), (32, 32)),
            node(f"{scope}/MatMul", "MatMul", before, f"{scope}/weights", shape=(8, 32)),
            node(f"{scope}/relu", "Relu", f"{scope}/MatMul", shape=(8, 32)),
        )
    )


GRAPH = b"".join(
    (
        node("x", "Placeholder", shape=(8, 32)),
        *(block(number) for number in range(BLOCKS)),
        node("gradients/relu", "ReluGrad", f"tower/block_{BLOCKS - 1}/relu", shape=(8, 32)),
        VERSIONS,
    )
)
NODES = 3 * BLOCKS + 2


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "graph.pb"
    path.write_bytes(GRAPH)
    return path


def test_the_summary_says_what_is_there(lowtide, file):
    answer = lowtide("graph", file)
    assert answer.code == 0
    assert answer.err == ""
    for text in ("graph.pb · graph", f"{NODES} nodes", "MatMul", "backward", "tower/block_0", "deepest scope"):
        assert text in answer.out


def test_json_is_all_that_is_printed(lowtide, file):
    data = json.loads(lowtide("graph", file, "--op", "MatMul", "--json").out)
    assert data["schema_version"] == 1
    assert (data["nodes"], data["nodes_of_the_file"], data["edges"]) == (BLOCKS, NODES, BLOCKS - 1)
    assert data["edges_through"] == BLOCKS - 1
    assert data["ops"] == [{"name": "MatMul", "nodes": BLOCKS, "bytes": BLOCKS * 1024}]
    assert data["notes"] == {"file": [], "choices": [f"MatMul alone: {NODES - BLOCKS} of {NODES} nodes left out"]}


def test_options_are_applied_in_their_own_order(lowtide, file):
    """Whatever the order of typing: the scope first, then without constants, then the sample."""
    typed = ["--sample", "4", "--drop-constants", "--scope", "tower/"]
    data = json.loads(lowtide("graph", file, "--json", *typed).out)
    assert data["nodes"] == 2 * BLOCKS // 4
    assert [note.partition(":")[0] for note in data["notes"]["choices"]] == [
        "tower/ alone",
        "without constants",
        "of each kind of node one in 4",
    ]


def test_around_and_forward_only(lowtide, file):
    def nodes(*options):
        return json.loads(lowtide("graph", file, "--json", *options).out)["nodes"]

    assert nodes("--around", "tower/block_0/relu", "--hops", "1") == 3
    assert nodes("--around", "tower/block_0/relu:0") == 7
    assert nodes("--forward-only") == NODES - 1


@pytest.mark.parametrize("ending", ["svg", "png", "json", "graphml", "dot", "pb"])
def test_every_kind_of_file_is_written(lowtide, file, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    answer = lowtide("graph", file, "--sample", "3", "--to", out)
    assert answer.code == 0
    assert answer.out == ""
    assert answer.err.splitlines()[-1] == f"wrote {out}"
    assert "note: of each kind of node one in 3" in answer.err
    assert count_nodes(out) >= BLOCKS + 2


def count_nodes(path: Path) -> int:
    """How many nodes a program that reads such files finds, or a person sees."""
    if path.suffix == ".svg":
        return len(ElementTree.parse(path).findall("{http://www.w3.org/2000/svg}g"))
    if path.suffix == ".png":
        with Image.open(path) as image:
            return len(image.getcolors(1 << 24))
    if path.suffix == ".json":
        return len(json.loads(path.read_text())["nodes"])
    if path.suffix == ".graphml":
        return len(networkx.read_graphml(path))
    if path.suffix == ".dot":
        return path.read_text().count("label=")
    return len(package.graph(path))


def test_a_written_graph_can_be_cut_again(lowtide, file, tmp_path):
    out = tmp_path / "less.pb"
    lowtide("graph", file, "--scope", "tower/block_3", "--to", out)
    data = json.loads(lowtide("graph", out, "--json").out)
    assert {share["name"]: share["nodes"] for share in data["ops"]} == {
        "Const": 1,
        "MatMul": 1,
        "Relu": 1,
        "Placeholder": 1,
    }


def test_attributes_are_limited(lowtide, file, tmp_path):
    out = tmp_path / "small.pb"
    answer = lowtide("graph", file, "--to", out, "--limit-attributes", "1KiB")
    assert f"{BLOCKS} attributes of more than 1,024 bytes are emptied" in answer.err
    assert out.stat().st_size < file.stat().st_size / 5
    assert json.loads(lowtide("graph", out, "--json").out)["nodes"] == NODES


def test_collapsed_to_a_picture(lowtide, file, tmp_path):
    out = tmp_path / "out.svg"
    answer = lowtide("graph", file, "--collapse", "2", "--to", out, "--stats")
    assert f"{NODES} nodes in {BLOCKS + 2} boxes" in answer.out
    assert "tower/block_3" in out.read_text()


def test_a_picture_of_too_much_is_folded_and_says_so(lowtide, tmp_path):
    path = tmp_path / "flat.pb"
    path.write_bytes(b"".join(node(f"layer_{number}", "Relu") for number in range(1000)))
    answer = lowtide("graph", path, "--to", tmp_path / "out.svg")
    assert "note: 1,000 nodes are folded into" in answer.err
    assert (tmp_path / "out.svg").read_text().count("<rect") < 200


def test_files_are_not_overwritten_without_force(lowtide, refused, file, tmp_path):
    out = tmp_path / "out.json"
    out.write_text("mine")
    assert "--force" in refused("graph", file, "--to", out)
    assert out.read_text() == "mine"
    assert lowtide("graph", file, "--to", out, "--force").code == 0
    assert out.read_text() != "mine"


def test_graphs_of_one_file_are_chosen(lowtide, refused, tmp_path):
    path = tmp_path / "logs" / "events.out.tfevents.1.host"
    path.parent.mkdir()
    path.write_bytes(events(event(message(4, GRAPH)), event(message(4, node("only", "NoOp")))))
    # A folder with one file is that file.
    first = lowtide("graph", path.parent)
    assert "this is graph 0 (graph); others in the file: 1 (graph (2))" in " ".join(first.out.split())
    for label in ("1", "graph (2)"):
        assert json.loads(lowtide("graph", path, "--graph", label, "--json").out)["nodes"] == 1
    assert "0 (graph), 1 (graph (2))" in refused("graph", path, "--graph", "train")
    # A file without a graph, as Keras writes for validation, is no other choice.
    (path.parent / "events.out.tfevents.2.host").write_bytes(events(event(message(2, "brain.Event:2"))))
    assert json.loads(lowtide("graph", path.parent, "--json").out)["nodes"] == NODES
    (path.parent / "other.pb").write_bytes(GRAPH)
    assert "other.pb" in refused("graph", path.parent)


def test_of_many_graphs_the_largest_are_named(lowtide, tmp_path):
    path = tmp_path / "events.out.tfevents.1.host"
    sizes = [1, 1, 1, 9, 1, 8, 1, 7, 6, 5]
    graphs = [b"".join(node(f"n{number}", "NoOp") for number in range(size)) for size in sizes]
    path.write_bytes(events(*(event(message(4, graph)) for graph in graphs)))
    said = " ".join(lowtide("graph", path).out.split())
    named = "3 (graph (4)), 5 (graph (6)), 7 (graph (8)), 8 (graph (9)), 9 (graph (10)) and 4 smaller"
    assert f"others in the file: {named}" in said


def test_bad_input_is_one_line(refused, file, tide_file, tmp_path):
    assert "did you mean MatMul" in refused("graph", file, "--op", "matmul")
    assert "did you mean tower/block_1 or" in refused("graph", file, "--scope", "tower/blok_1")
    assert "did you mean tower/block_1/MatMul" in refused("graph", file, "--around", "tower/block_1/MatMl")
    assert "no node is left" in refused("graph", file, "--scope", "tower", "--op", "ReluGrad")
    assert "1 or more" in refused("graph", file, "--sample", "0")
    assert "--around" in refused("graph", file, "--hops", "2")
    assert ".graphml" in refused("graph", file, "--to", tmp_path / "out.txt")
    assert "only a .pb" in refused("graph", file, "--to", tmp_path / "out.svg", "--limit-attributes", "1k")
    assert "--to" in refused("graph", file, "--limit-attributes", "1k")
    assert "lowtide explain" in refused("graph", tide_file)
    assert "no such file" in refused("graph", tmp_path / "nowhere.pb")
    assert "no graph" in refused("graph", __file__)
    assert "does not exist" in refused("graph", file, "--to", tmp_path / "no" / "a.svg")


def test_a_damaged_file_is_shown_as_far_as_it_goes(lowtide, tmp_path):
    path = tmp_path / "cut.pb"
    path.write_bytes(GRAPH[:-300])
    answer = lowtide("graph", path)
    assert answer.code == 0
    assert "damaged or cut" in answer.out


def test_it_starts_without_tensorflow(file, tmp_path):
    code = (
        "import lowtide as lt, lowtide.program.dtypes, sys\n"
        f"print(len(lt.graph({str(file)!r}).sample(2)))\n"
        "assert not {'tensorflow', 'keras', 'networkx', 'rich'} & set(sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(package.__file__).parents[1]), "LOWTIDE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 3 * BLOCKS // 2 + 2


@pytest.mark.parametrize(
    ("module", "call", "extra"),
    [
        ("networkx", "graph.to_networkx()", "lowtide[graph]"),
        ("rustworkx", "graph.to_rustworkx()", "lowtide[graph]"),
        ("PIL", "graph.save('out.png')", "lowtide[png]"),
    ],
)
def test_a_missing_library_is_named(file, tmp_path, monkeypatch, module, call, extra):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(package.LowtideError) as error:
        eval(call, {"graph": package.graph(file)})
    assert extra in str(error.value)
