"""Answers on disk: valid as long as everything that they were computed from is the same, and otherwise not there."""

import os
import subprocess
import sys

import pytest

from lowtide.cache.answers import add_answer, find_answer
from lowtide.cache.dependencies import observing, state_of
from lowtide.cache.folder import ANSWERS
from lowtide.cache.surroundings import installed_digest, key_of, relevant_variables, surroundings
from tests.unit.test_index_cache import DAMAGES


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / ANSWERS


def test_an_answer_is_found_again(folder):
    assert find_answer("key") is None
    add_answer("key", b"one\ntwo", {})
    assert find_answer("key") == b"one\ntwo"
    assert find_answer("other") is None
    assert [file.name for file in folder.iterdir()] == ["key"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_answer_counts_as_missing(folder, damage):
    add_answer("key", b"content" * 1000, {})
    DAMAGES[damage](folder / "key")
    assert find_answer("key") is None
    if damage != "a folder":
        add_answer("key", b"new", {})
        assert find_answer("key") == b"new"


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("5"),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_an_answer_computed_from_a_file_that_has_changed_counts_as_missing(folder, tmp_path, change):
    path = tmp_path / "units.txt"
    path.write_text("4")
    add_answer("key", b"answer", {str(path): state_of(str(path))})
    assert find_answer("key") == b"answer"
    os.utime(path, (1, 1))
    assert find_answer("key") == b"answer"
    change(path)
    assert find_answer("key") is None


def test_a_file_that_was_missing_and_now_exists_is_a_change(folder, tmp_path):
    path = tmp_path / "keras.json"
    add_answer("key", b"answer", {str(path): state_of(str(path))})
    assert find_answer("key") == b"answer"
    path.write_text("{}")
    assert find_answer("key") is None


def test_the_least_recently_used_answers_make_room(folder, monkeypatch):
    for name in ("first", "second", "third"):
        add_answer(name, os.urandom(1000), {})
        os.utime(folder / name, ns=(1, len(list(folder.iterdir()))))
    find_answer("first")
    monkeypatch.setenv("LOWTIDE_CACHE_LIMIT", "3500")
    add_answer("fourth", os.urandom(1000), {})
    assert {file.name for file in folder.iterdir()} == {"first", "third", "fourth"}


def test_a_cache_that_cannot_be_written_is_not_an_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("LOWTIDE_CACHE", str(blocked))
    add_answer("key", b"answer", {})
    assert find_answer("key") is None


def test_what_a_program_reads_is_observed(tmp_path):
    read, written, listed = tmp_path / "read.txt", tmp_path / "written.txt", tmp_path / "folder"
    read.write_text("4")
    listed.mkdir()
    with observing() as observation:
        read.read_text()
        written.write_text("5")
        written.read_text()
        os.listdir(listed)
        with pytest.raises(FileNotFoundError):
            (tmp_path / "missing.txt").read_text()
    found = observation.dependencies()
    assert found is not None
    own = {path for path in found if path.startswith(str(tmp_path))}
    assert own == {str(read), str(listed), str(tmp_path / "missing.txt")}
    # And all modules.
    assert os.__file__ in found
    assert __file__ in found
    before = found[str(listed)]
    (listed / "new").write_text("")
    assert state_of(str(listed)) != before


def test_a_program_that_asks_a_process_or_the_network_has_no_dependencies_that_can_be_checked():
    with observing() as observation:
        subprocess.run([sys.executable, "--version"], capture_output=True, check=True)
    assert observation.asked_elsewhere == "subprocess.Popen"
    assert observation.dependencies() is None


def test_another_version_of_a_package_is_another_surrounding(tmp_path):
    (tmp_path / "tensorflow-2.21.0.dist-info").mkdir()
    before = installed_digest([str(tmp_path)])
    assert installed_digest([str(tmp_path)]) == before
    (tmp_path / "tensorflow-2.21.0.dist-info").rename(tmp_path / "tensorflow-2.22.0.dist-info")
    assert installed_digest([str(tmp_path)]) != before


def test_variables_matter_unless_they_describe_the_terminal(monkeypatch):
    before = key_of(surroundings())
    monkeypatch.setenv("COLUMNS", "81")
    assert key_of(surroundings()) == before
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert key_of(surroundings()) != before
    assert relevant_variables({"TERM": "xterm", "XLA_FLAGS": "a"}) == [("XLA_FLAGS", "a")]
