"""The app of `lowtide view`, asked as a browser would: every address, on graphs of a few nodes."""

import gzip
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.view.server.background import Background
from lowtide.view.server.library import open_library
from tests.conftest import make_tide
from tests.plans import make_plan
from tests.unit.graph_bytes import FLOAT, TRAINING, attribute, function, shape, typed
from tests.unit.protos import GRAPH, event, events, message, node
from tests.unit.sites import open_site

CALL = node("call", "PartitionedCall", "x", attributes=attribute("f", message(10, message(1, "step"))))
BODY = [node("relu", "Relu", "x"), node("out", "Identity", "relu:activations:0")]
STEP = message(2, function("step", ["x"], BODY, {"y": "out:output:0"}))
CHANGED = node("dense/MatMul", "MatMul", "x", "dense/kernel/Read", attributes=typed(FLOAT, shape(8, 2)))


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder of runs, with a bit of everything."""
    folder = tmp_path_factory.mktemp("logs")
    (folder / "run_2").mkdir()
    (folder / "run_10").mkdir()
    (folder / "graph.pb").write_bytes(b"".join(TRAINING))
    (folder / "run_2" / "events.out.tfevents.1.host").write_bytes(events(event(message(4, GRAPH + CALL + STEP))))
    (folder / "run_10" / "other.pb").write_bytes(b"".join(TRAINING[:3]) + CHANGED)
    (folder / "run_10" / "broken.pb").write_bytes(b"\xff" * 64)
    (folder / "run_10" / "notes.txt").write_text("not shown")
    make_tide().save(folder / "step.tide")
    make_plan().save(folder / "step.plan")
    return folder


@pytest.fixture(scope="module")
def site(logs, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWTIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        with open_site(logs) as site:
            site.until("files", lambda answer: all(file["kind"] != "reading" for file in answer["files"]))
            for graph in ("0.0", "1.0", "3.0"):
                assert site.open(graph)["state"] == "ready"
            yield site


def test_files_are_listed_as_a_person_sorts_them(site, logs):
    answer = site.ask("files")
    assert answer["title"] == str(logs)
    assert [(file["id"], file["path"], file["run"], file["kind"]) for file in answer["files"]] == [
        (0, "graph.pb", "", "graph"),
        (1, "run_2/events.out.tfevents.1.host", "run_2", "events"),
        (2, "run_10/broken.pb", "run_10", "unreadable"),
        (3, "run_10/other.pb", "run_10", "graph"),
        (4, "step.plan", "", "plan"),
        (5, "step.tide", "", "tide"),
    ]
    by_kind = {file["kind"]: file for file in answer["files"]}
    assert by_kind["events"]["graphs"] == [
        {"id": "1.0", "label": "graph", "state": "ready", "nodes": 7, "bytes": len(GRAPH + CALL + STEP)}
    ]
    assert by_kind["unreadable"]["graphs"] == []
    assert by_kind["unreadable"]["notes"] == ["no graph is in this file"]
    assert by_kind["plan"]["title"] == "train.py:build · batch 5"
    tide = by_kind["tide"]
    assert (tide["title"], tide["peak_bytes"], tide["method"]) == ("train.py:build · batch 5", 8704, "simulated")


def test_a_graph_says_what_it_is_made_of(site, logs):
    answer = site.ask("graph/0.0")
    assert (answer["nodes"], answer["edges"], answer["notes"]) == (8, 11, [])
    assert answer["parts"] == [{"part": 0, "name": "", "nodes": 8}]
    assert dict(answer["ops"])["MatMul"] == 2
    assert answer["devices"] == [["", 7], ["/CPU:0", 1]]
    assert dict(answer["dtypes"]) == {"float32": 5, "bool": 1, "resource": 1, "unknown": 1}
    assert dict(answer["phases"]) == {"forward": 5, "backward": 1, "optimizer": 2}
    assert answer["built"]["peak_bytes"] > 0


def test_functions_are_parts(site):
    answer = site.ask("graph/1.0")
    assert [(part["name"], part["nodes"]) for part in answer["parts"]] == [("", 3), ("step", 4)]
    assert answer["parts_total"] == 2
    assert [item["key"] for item in site.ask("graph/1.0/screen", "part=1")["items"]] == ["x", "relu", "out", "y"]


def test_screens_open_scope_by_scope(site):
    top = site.ask("graph/0.0/screen")
    assert {item["key"]: item["kind"] for item in top["items"]} == {
        "x": "node", "lr": "node", "dense": "scope", "gradient_tape": "scope", "adam": "scope",
    }  # fmt: skip
    inside = site.ask("graph/0.0/screen", "path=dense")
    assert [item["label"] for item in inside["items"]] == ["MatMul", "Less", "kernel"]


def test_colours_are_amounts_of_a_tide(site):
    items = site.ask("graph/0.0/screen", "tide=5&colour=peak")["items"]
    # The kernel alone of the scope is held at the peak: Relu and the workspace are not in this graph, or not alive.
    assert {item["key"]: item["value"] for item in items} == {
        "x": 512, "lr": 0, "dense": 1024, "gradient_tape": 1024, "adam": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("around?name=dense/kernel&hops=1", {"dense/kernel": 1024, "dense/kernel/Read": 0, "adam/apply": 0}),
        ("paths?from=dense/kernel&to=dense/MatMul", {"dense/kernel": 1024, "dense/kernel/Read": 0, "dense/MatMul": 0}),
    ],
)
def test_nodes_are_coloured_by_a_tide(site, asked, expected):
    path, _, query = asked.partition("?")
    items = site.ask(f"graph/0.0/{path}", f"{query}&tide=5&colour=peak")["items"]
    assert {item["key"]: item["value"] for item in items} == expected
    assert {item["value"] for item in site.ask(f"graph/0.0/{path}", query)["items"]} == {None}


def test_details_of_a_node_come_from_its_file_and_a_tide(site):
    answer = site.ask("graph/0.0/node", "name=dense/kernel&tide=5")
    assert (answer["op"], answer["tide"]["bytes_at_peak"], answer["tide"]["tensor_count"]) == ("VarHandleOp", 1024, 1)
    assert answer["tide"]["tensors"][0]["name"] == "dense/kernel:0"
    assert site.ask("graph/0.0/node", "name=lr&tide=5")["tide"] is None
    answer = site.ask("graph/0.0/node", "name=adam/apply&inputs_from=2")
    assert [each["name"] for each in answer["inputs"]] == ["lr", "dense/Less"]
    assert (answer["input_count"], answer["tide"]) == (4, None)


def test_search_finds_nodes_and_scopes(site):
    answer = site.ask("graph/0.0/search", "q=kernel")
    assert [(each["kind"], each["name"]) for each in answer["results"]] == [
        ("scope", "dense/kernel"),
        ("node", "dense/kernel"),
    ]
    answer = site.ask("graph/0.0/search", "op=MatMul,Less&dtype=bool")
    assert ([each["name"] for each in answer["results"]], answer["total"]) == (["dense/Less"], 1)
    assert site.ask("graph/0.0/search", "q=matmul&limit=1")["total"] == 2
    large = site.ask("graph/0.0/search", "bytes=32")["results"]
    assert [each["name"] for each in large] == ["x", "dense/MatMul", "dense/kernel"]
    assert site.ask("graph/0.0/search", "phase=backward")["results"][0]["name"] == "gradient_tape/MatMul"
    assert site.ask("graph/1.0/search", "q=relu&part=1")["results"] == [
        {"part": 1, "name": "relu", "op": "Relu", "kind": "node", "nodes": 1}
    ]


def test_neighbours_and_paths_are_screens_of_nodes(site):
    answer = site.ask("graph/0.0/around", "name=dense/MatMul&hops=1&direction=inputs")
    assert {item["key"] for item in answer["items"]} == {"dense/MatMul", "x", "dense/kernel/Read"}
    answer = site.ask("graph/0.0/paths", "from=x&to=adam/apply")
    assert {item["key"] for item in answer["items"]} == {"x", "dense/Less", "gradient_tape/MatMul", "adam/apply"}
    assert site.refused("/api/graph/0.0/paths", "from=adam/apply&to=x") == (404, "no path leads from one to the other")


def test_a_tensor_of_a_tide_is_found_in_the_graph(site):
    assert site.ask("graph/0.0/locate", "tensor=dense/MatMul:0") == {"part": 0, "name": "dense/MatMul"}
    assert site.ask("graph/0.0/locate", "tensor=missing:0") == {"name": None}


def test_the_way_to_a_node_is_what_to_open(site):
    assert site.ask("graph/0.0/trail", "name=dense/kernel/Read") == {
        "kind": "node",
        "trail": ["dense", "dense/kernel"],
    }
    assert site.ask("graph/0.0/trail", "name=dense/kernel&kind=scope") == {
        "kind": "scope",
        "trail": ["dense"],
    }
    assert site.refused("/api/graph/0.0/trail", "name=missing&kind=scope")[0] == 404


def test_two_graphs_are_compared(site):
    items = site.ask("diff", "one=0.0&other=3.0&path=dense")["items"]
    assert {item["label"]: item["change"] for item in items} == {
        "MatMul": "changed",
        "kernel": "same",
        "Less": "removed",
    }
    assert site.refused("/api/diff", "one=0.0") == (400, "other is missing")


def test_tides_and_plans_are_what_the_pages_draw(site):
    assert site.ask("tide/5")["peak_bytes"] == 8704
    assert site.ask("plan/4")["budget_bytes"] == 10240
    assert site.refused("/api/tide/4") == (404, "there is no such tide")
    assert site.refused("/api/plan/0")[0] == 404


# -- what is wrong with a request ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/api/graph/9.0", "", 404),
        ("/api/graph/0.7", "", 404),
        ("/api/graph/2.0", "", 404),
        ("/api/graph/0", "", 404),
        ("/api/graph/..", "", 404),
        ("/api/graph/0.0/nonsense", "", 404),
        ("/api/graph/0.0/screen/more", "", 404),
        ("/api", "", 404),
        ("/api/", "", 404),
        ("/api/tide/x", "", 404),
        ("/api/tide/99999999999999999999", "", 404),
        ("/api/graph/0.0/node", "", 400),
        ("/api/graph/0.0/node", "name=missing", 404),
        ("/api/graph/0.0/node", "name=x&part=1", 400),
        ("/api/graph/0.0/node", "name=x&inputs_from=-1", 400),
        ("/api/graph/0.0/node", "name=x&tide=0", 404),
        ("/api/graph/0.0/screen", "part=\u0661", 400),
        ("/api/graph/0.0/screen", "path=missing", 422),
        ("/api/graph/0.0/screen", "fold=missing", 422),
        ("/api/graph/0.0/screen", "tide=5&colour=red", 400),
        ("/api/graph/0.0/around", "name=x&hops=1000", 400),
        ("/api/graph/0.0/around", "name=x&direction=up", 400),
        ("/api/graph/0.0/search", "phase=moon", 400),
        ("/api/graph/0.0/search", "limit=100000", 400),
        ("/api/graph/0.0/search", "q=" + "x" * 2000, 400),
        ("/api/graph/0.0/search", "op=" + "x," * 1000, 400),
        ("/api/graph/0.0/search", "q=" + "x" * 70_000, 414),
        ("/api/files", "&".join(f"a{number}=1" for number in range(100)), 400),
    ],
)
def test_a_question_without_an_answer_is_refused_with_a_cure(site, path, query, status):
    assert site.refused(path, query)[0] == status


@pytest.mark.parametrize(
    "path", ["/graph.pb", "/../graph.pb", "/page/../app.py", "//etc/passwd", "/index.html/x", "", "/app.py"]
)
def test_nothing_but_the_page_is_sent_as_a_file(site, path):
    assert site.refused(path)[0] == 404


def test_the_page_is_sent(site):
    for path in ("/", "/index.html"):
        reply = site.get(path)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"<script" in reply.body
    assert site.get("/index.js").headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_get_is_answered(site, method):
    reply = site.get("/api/files", method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


def test_head_has_the_headers_alone(site):
    full, head = site.get("/api/graph/0.0"), site.get("/api/graph/0.0", method="HEAD")
    assert head.body == b""
    assert dict(head.headers) == dict(full.headers)
    assert int(head.headers["content-length"]) == len(full.body)


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:6007",
        "127.0.0.1.attacker.example",
        "localhost@attacker.example",
        "10.0.0.1",
        "",
        None,
    ],
)
def test_a_foreign_host_name_for_the_address_is_refused(site, host):
    assert site.refused("/api/files", host=host)[0] == 403
    assert site.refused("/", host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "LOCALHOST:6007", "127.0.0.1", "[::1]:6007", "[::1]"])
def test_every_name_of_this_machine_is_known(site, host):
    assert site.get("/api/files", host=host).status == 200


@pytest.mark.parametrize("sender", ["cross-site", "same-site"])
def test_pages_of_other_origins_are_refused(site, sender):
    assert site.refused("/api/files", sec_fetch_site=sender)[0] == 403
    # A link to the page itself is fine.
    assert site.get("/", sec_fetch_site=sender).status == 200


@pytest.mark.parametrize("path", ["/", "/index.js", "/api/files", "/api/nonsense", "/nonsense"])
def test_every_answer_is_protected(site, path):
    headers = site.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-cache"


def test_large_answers_are_compressed_where_that_is_understood(site):
    plain = site.get("/index.js")
    for encodings in ("gzip", "br, gzip;q=0.5"):
        small = site.get("/index.js", accept_encoding=encodings)
        assert small.headers["content-encoding"] == "gzip"
        assert gzip.decompress(small.body) == plain.body
    for encodings in ("br", "gzip;q=0", "gzip; q=0.0"):
        assert "content-encoding" not in site.get("/index.js", accept_encoding=encodings).headers


def test_what_a_browser_has_is_not_sent_again(site):
    tag = site.get("/index.js").headers["etag"]
    again = site.get("/index.js", if_none_match=tag)
    assert (again.status, again.body) == (304, b"")
    assert site.get("/index.js", if_none_match='"other"').status == 200


def test_a_fault_of_the_server_is_one_line_without_paths(site, monkeypatch, caplog):
    def fail():
        raise RuntimeError(f"in {__file__}\nand more")

    monkeypatch.setattr(site.api, "files", fail)
    assert site.refused("/api/files") == (500, "the server failed (RuntimeError)")
    assert "RuntimeError" in caplog.text


# -- anything at all ----------------------------------------------------------------------------------------

WORDS = ["", "api", "graph", "0.0", "1.0", "2.0", "0", "screen", "node", "search", "around", "paths", "locate", "trail",
         "diff", "tide", "5", "plan", "4", "files", "..", ".", "%2e%2e", "index.js", "\x00", "é"]  # fmt: skip
NAMES = ["part", "path", "fold", "tide", "colour", "name", "q", "op", "scope", "device", "dtype", "phase", "bytes",
         "limit", "hops", "direction", "from", "to", "tensor", "one", "other", "kind", "inputs_from"]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["", "0", "1", "5", "-1", "1e9", "x", "dense", "dense/kernel", "adam/apply", "peak", "0.0", "1.0",
                     "both", "scope", "*scopes", "@0-1", "@5-1", "*op MatMul", "|", "||", "%00", "MatMul", "/", "//"]),
    st.text(max_size=20),
)  # fmt: skip
LATIN = st.text(st.characters(max_codepoint=255), max_size=30)
PATHS = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=6).map(lambda words: "/" + "/".join(words)), LATIN.map("/{}".format)
)
KNOWN = st.sampled_from(["screen", "node", "search", "around", "paths", "locate", "trail"]).map(
    "/api/graph/0.0/{}".format
)
QUERIES = st.one_of(
    st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5).map(
        lambda pairs: "&".join(f"{name}={quote(value)}" for name, value in pairs)
    ),
    LATIN,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.one_of(PATHS, KNOWN), query=QUERIES)
def test_every_request_is_answered_or_refused(site, logs, path, query):
    reply = site.get(path, query)
    assert reply.status in (200, 400, 403, 404, 414, 422, 503), reply
    if reply.headers["content-type"] == "application/json":
        answer = json.loads(reply.body, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert reply.status == 200 or set(answer) == {"error", "cure"}
    # Only the list of files shows what was typed to find them.
    assert str(logs).encode() not in reply.body or path.startswith("/api/files")


def test_a_folder_given_as_a_dot_has_its_name(tmp_path, monkeypatch):
    inside = tmp_path / "logs" / "run"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    background = Background()
    assert [open_library([text], background).title for text in (".", "..", "../run")] == ["run", "logs", "../run"]
