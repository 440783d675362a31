"""Files that appear, change, are cut, lead elsewhere or cannot be read, while `lowtide view` shows them."""

import os
import shutil
import signal

import pytest

from tests.conftest import make_tide
from tests.training_runs import finished_run, write_run
from tests.unit.graph_bytes import TRAINING
from tests.unit.protos import GRAPH, event, events, message
from tests.unit.sites import open_site


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def test_the_only_graph_is_built_before_it_is_asked_for(own_cache):
    (own_cache / "graph.pb").write_bytes(GRAPH)
    with open_site(own_cache / "graph.pb") as site:
        answer = site.until(
            "files",
            lambda answer: answer["files"][0]["graphs"][0:1] and answer["files"][0]["graphs"][0]["state"] == "ready",
        )
        assert answer["files"][0]["path"] == "graph.pb"


def test_new_files_appear_and_numbers_stay(own_cache):
    (own_cache / "m.pb").write_bytes(GRAPH)
    with open_site(own_cache) as site:
        assert [file["path"] for file in site.ask("files")["files"]] == ["m.pb"]
        (own_cache / "a.pb").write_bytes(GRAPH)
        answer = site.until("files", lambda answer: len(answer["files"]) == 2)
        assert [(file["id"], file["path"]) for file in answer["files"]] == [(1, "a.pb"), (0, "m.pb")]
        (own_cache / "m.pb").unlink()
        answer = site.until("files", lambda answer: len(answer["files"]) == 1)
        assert site.refused("/api/graph/0.0")[0] == 404


def test_a_file_that_changed_is_built_again_and_shown_meanwhile(own_cache):
    path = own_cache / "graph.pb"
    path.write_bytes(GRAPH)
    with open_site(path) as site:
        assert site.open("0.0")["nodes"] == 2
        path.write_bytes(b"".join(TRAINING))
        answer = site.ask("graph/0.0")
        assert (answer["state"], answer["nodes"]) in (("ready", 2), ("ready", 8))
        assert site.until("graph/0.0", lambda answer: answer["nodes"] == 8)["state"] == "ready"
        assert len(site.ask("graph/0.0/screen")["items"]) == 5


def test_a_training_run_is_listed_and_read_again_as_it_grows(own_cache):
    directory = write_run(own_cache / "a", finished_run()[:5])
    write_run(own_cache / "b", [])
    with open_site(own_cache) as site:
        files = site.until("files", lambda answer: all(file["kind"] != "reading" for file in answer["files"]))["files"]
        assert [(file["path"], file["kind"], file["run"], file["steps"]) for file in files] == [
            ("a/history.jsonl", "run", "a", 150),
            ("b/history.jsonl", "run", "b", 0),
        ]
        assert files[0]["title"] == "train.py --epochs 6"
        assert [attempt["number"] for attempt in site.ask("run/0")["attempts"]] == [1]
        for event in finished_run()[5:]:
            directory.history.append(event)
        assert [attempt["number"] for attempt in site.ask("run/0")["attempts"]] == [1, 2, 3, 4]
        site.until("files", lambda answer: answer["files"][0]["steps"] == 600)
        assert site.refused("/api/run/7") == (404, "there is no such run")
        assert site.refused("/api/tide/0")[0] == 404


def test_a_damaged_record_of_a_run_is_a_note(own_cache):
    write_run(own_cache / "a", finished_run())
    (own_cache / "a" / "run.json").write_text("{}")
    with open_site(own_cache) as site:
        answer = site.until("files", lambda answer: answer["files"][0]["kind"] == "unreadable")
        assert answer["files"][0]["notes"] == ["the record of the run is damaged"]
        assert site.refused("/api/run/0")[0] == 404


def test_an_event_file_that_grows_keeps_the_index_of_its_graph(own_cache):
    path = own_cache / "events.out.tfevents.1.host"
    path.write_bytes(events(event(message(4, GRAPH))))
    with open_site(path) as site:
        site.open("0.0")
        (built,) = (own_cache.parent / "cache" / "graphs").iterdir()
        path.write_bytes(events(event(message(4, GRAPH)), event(message(4, b"".join(TRAINING)))))
        answer = site.until("files", lambda answer: len(answer["files"][0]["graphs"]) == 2)
        assert [graph["state"] for graph in answer["files"][0]["graphs"]] == ["ready", "waiting"]
        assert site.open("0.1")["nodes"] == 8
        assert built.is_dir()


def test_a_file_that_is_cut_is_shown_as_far_as_it_goes(own_cache):
    path = own_cache / "events.out.tfevents.1.host"
    path.write_bytes(events(event(message(4, b"".join(TRAINING))))[:-150])
    with open_site(path) as site:
        answer = site.open("0.0")
        assert 0 < answer["nodes"] < 8
        assert any("ends in the middle" in note for note in answer["notes"])


def test_links_that_lead_out_are_not_followed(own_cache, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "graph.pb").write_bytes(GRAPH)
    (own_cache / "inside.pb").write_bytes(GRAPH)
    (own_cache / "link.pb").symlink_to(secret / "graph.pb")
    (own_cache / "folder").symlink_to(secret)
    (own_cache / "fine.pb").symlink_to(own_cache / "inside.pb")
    with open_site(own_cache) as site:
        assert [file["path"] for file in site.ask("files")["files"]] == ["fine.pb", "inside.pb"]
        assert site.open("1.0")["state"] == "ready"
        (own_cache / "inside.pb").unlink()
        (own_cache / "inside.pb").symlink_to(secret / "graph.pb")
        assert site.refused("/api/graph/1.0")[0] == 404
        assert site.refused("/api/graph/1.0/screen")[0] == 404


def test_an_index_that_is_gone_is_built_again(own_cache, tmp_path):
    (own_cache / "graph.pb").write_bytes(b"".join(TRAINING))
    with open_site(own_cache) as site:
        site.open("0.0")
        shutil.rmtree(tmp_path / "cache")
        # Whatever it had mapped it may still answer from, but never wrongly.
        assert site.get("/api/graph/0.0/screen").status in (200, 503)
        site.open("0.0")
        site.until("graph/0.0", lambda answer: answer["state"] == "ready")


def test_a_process_that_dies_is_reported_and_the_next_one_works(own_cache):
    (own_cache / "one.pb").write_bytes(GRAPH)
    (own_cache / "two.pb").write_bytes(GRAPH)
    with open_site(own_cache) as site:
        site.until("files", lambda answer: all(file["kind"] == "graph" for file in answer["files"]))
        os.kill(site.background._process.pid, signal.SIGKILL)
        answer = site.open("0.0")
        # It was seen to be gone before, or while it had this to do; then it is tried again.
        assert answer["state"] == "ready" or answer["error"] == "the process that reads files has died"
        site.until("graph/0.0", lambda answer: answer["state"] == "ready")
        assert site.open("1.0")["state"] == "ready"


def test_several_paths_keep_their_names(own_cache, monkeypatch):
    monkeypatch.chdir(own_cache)
    for name in ("one", "two"):
        (own_cache / name).mkdir()
        (own_cache / name / "graph.pb").write_bytes(GRAPH)
    with open_site("one", "two/graph.pb", "two") as site:
        answer = site.ask("files")
        assert answer["title"] == "one, two/graph.pb, two"
        assert [(file["path"], file["run"]) for file in answer["files"]] == [
            ("one/graph.pb", "one"),
            ("two/graph.pb", "two"),
        ]


def test_inside_another_program_the_host_allow_list_is_that_of_the_program(own_cache):
    (own_cache / "graph.pb").write_bytes(GRAPH)
    with open_site(own_cache, hosts=None, prefix="/data/plugin/lowtide") as site:
        reply = site.get("/data/plugin/lowtide/api/files", host="notebook.example")
        assert reply.status == 200
        assert "x-frame-options" not in reply.headers
        assert "frame-ancestors" not in reply.headers["content-security-policy"]
        assert site.get("/data/plugin/lowtide/index.js").status == 200
        assert site.refused("/api/files")[0] == 404
        assert site.refused("/data/plugin/lowtide")[0] == 404


def test_a_tide_can_be_the_first_that_is_asked_for(own_cache):
    make_tide().save(own_cache / "step.tide")
    with open_site(own_cache) as site:
        assert site.ask("tide/0")["peak_bytes"] == 8704
