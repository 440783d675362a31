"""The plugin as TensorBoard loads it: which folders it shows, and when it has something to show."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.training_runs import finished_run, write_run
from tests.unit.protos import GRAPH, event, events, message

base_plugin = pytest.importorskip("tensorboard.plugins.base_plugin")

from lowtide.view.server.tensorboard_plugin import Loader, log_roots, spec_roots  # noqa: E402


def load(logdir: str, spec: str = ""):
    return Loader().load(base_plugin.TBContext(logdir=logdir, flags=SimpleNamespace(logdir_spec=spec)))


def becomes_active(plugin) -> bool:
    for _ in range(600):
        if plugin.is_active():
            return True
        time.sleep(0.05)
    return False


def test_the_tab_and_its_routes(tmp_path):
    plugin = load(str(tmp_path))
    metadata = plugin.frontend_metadata()
    assert (plugin.plugin_name, metadata.tab_name, metadata.es_module_path) == ("lowtide", "Lowtide", "/index.js")
    assert set(plugin.get_plugin_apps()) == {"/index.js", "/*"}


def test_it_is_active_once_there_is_a_graph(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "events.out.tfevents.1.host").write_bytes(events())
    plugin = load(str(logs))
    assert not plugin.is_active()
    (logs / "events.out.tfevents.2.host").write_bytes(events(event(message(4, GRAPH))))
    assert becomes_active(plugin)


def test_a_tide_is_something_to_show(tide_file):
    assert becomes_active(load(str(tide_file.parent)))


def test_a_training_run_is_something_to_show(tmp_path):
    write_run(tmp_path / "runs" / "a", finished_run())
    assert becomes_active(load(str(tmp_path / "runs")))


def test_without_logs_on_this_machine_there_is_no_tab():
    assert load("") is None
    assert load("gs://bucket/logs") is None
    assert load("", "gs://bucket/logs") is None


def test_folders_are_those_that_tensorboard_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/user")
    assert [(root.path, root.display_name) for root in log_roots("logs,1")] == [(tmp_path / "logs,1", "")]
    assert [
        (root.path, root.display_name) for root in spec_roots("one:logs/1,two:/logs/2,~/3,/with:colon,gs://x,,b:s3://y")
    ] == [
        (tmp_path / "logs/1", "one"),
        (Path("/logs/2"), "two"),
        (Path("/home/user/3"), "~/3"),
        (Path("/with:colon"), "/with:colon"),
    ]
