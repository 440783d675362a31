"""Checkpoints as folders: complete or not there, checked before they are used."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lowtide.errors import LowtideError
from lowtide.run.train.checkpoint_files import (
    MANIFEST,
    checkpoint_name,
    end_checkpoints,
    find_damage,
    newest_checkpoint,
    prune,
    steps_of,
    write_checkpoint,
)


def save(parent: Path, steps: int, text: str = "content", *, is_end: bool = False) -> Path:
    def write(folder: Path) -> None:
        (folder / "data").write_text(text)
        (folder / "more").mkdir()
        (folder / "more" / "state").write_bytes(b"\0" * 100)

    return write_checkpoint(parent, checkpoint_name(steps, is_end=is_end), write)


def test_the_newest_complete_checkpoint_is_found(tmp_path: Path) -> None:
    save(tmp_path, 9)
    newest = save(tmp_path, 10)
    assert newest_checkpoint(tmp_path) == (newest, [])
    assert steps_of(newest) == 10


def test_without_checkpoints_there_is_none(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "missing") == (None, [])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: (path / "data").write_text("contend"), "data has changed"),
        (lambda path: (path / "data").write_text("short"), "data has 5 of 7 bytes"),
        (lambda path: (path / "more" / "state").unlink(), "state is missing"),
        (lambda path: (path / MANIFEST).unlink(), "manifest.json is missing"),
        (lambda path: (path / MANIFEST).write_text("{"), "manifest.json is not readable"),
        (lambda path: (path / MANIFEST).write_text("[]"), "manifest.json is not readable"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage, words) -> None:
    before, newest = save(tmp_path, 1), save(tmp_path, 2)
    damage(newest)
    found, damaged = newest_checkpoint(tmp_path)
    assert found == before
    assert [each.path for each in damaged] == [newest]
    assert words in damaged[0].problem


def test_a_checkpoint_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, "schema_version": 99}))
    with pytest.raises(LowtideError, match="newer version"):
        newest_checkpoint(tmp_path)


def test_the_last_two_and_those_at_the_end_of_a_training_are_kept(tmp_path: Path) -> None:
    for steps in (1, 2):
        save(tmp_path, steps)
    end = save(tmp_path, 3, is_end=True)
    for steps in (4, 5, 6):
        save(tmp_path, steps)
    prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [end.name, checkpoint_name(5), checkpoint_name(6)]
    assert end_checkpoints(tmp_path) == [end]


def test_a_damaged_checkpoint_is_not_one_of_the_two_that_are_kept(tmp_path: Path) -> None:
    for steps in (1, 2, 5):
        damaged = save(tmp_path, steps)
    (damaged / "data").unlink()
    save(tmp_path, 3)
    prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [checkpoint_name(2), checkpoint_name(3)]


def test_a_failing_write_leaves_what_was_there(tmp_path: Path) -> None:
    before = save(tmp_path, 1, "first")

    def fail(folder: Path) -> None:
        (folder / "data").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_checkpoint(tmp_path, checkpoint_name(1), fail)
    assert newest_checkpoint(tmp_path) == (before, [])
    assert (before / "data").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == [before.name]


def test_a_checkpoint_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    save(tmp_path, 1, "first")
    path = save(tmp_path, 1, "second")
    assert (path / "data").read_text() == "second"
    assert find_damage(path) is None
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """The system refuses files above a size, as a full disk does."""
    before = save(tmp_path, 1)
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from lowtide.run.train.checkpoint_files import write_checkpoint\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "write_checkpoint(Path(sys.argv[1]), '000000000002', lambda folder: (folder / 'x').write_bytes(bytes(1 << 20)))"
    )
    ended = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert "File too large" in ended.stderr
    assert newest_checkpoint(tmp_path) == (before, [])


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.05])
def test_a_process_killed_while_writing_leaves_only_complete_checkpoints(tmp_path: Path, delay: float) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from lowtide.run.train.checkpoint_files import checkpoint_name, prune, write_checkpoint\n"
        "parent, number = Path(sys.argv[1]), 0\n"
        "while True:\n"
        "    number += 1\n"
        "    write_checkpoint(parent, checkpoint_name(number), lambda f: (f / 'x').write_bytes(bytes(300_000)))\n"
        "    prune(parent)\n"
        "    print(number, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        done = [int(process.stdout.readline()) for _ in range(3)][-1]
        time.sleep(delay)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        rest = process.communicate()[0].split()
    done = int(rest[-1]) if rest else done
    newest, damaged = newest_checkpoint(tmp_path)
    assert damaged == []
    assert newest is not None
    assert steps_of(newest) >= done
    # The next checkpoint removes what the killed process left.
    save(tmp_path, done + 5)
    prune(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
