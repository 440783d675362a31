"""The directory of a run: which program it belongs to, its lock, its history."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.errors import LowtideError
from lowtide.run.launch import Script
from lowtide.run.train.history import AttemptStarted, CheckpointWritten, Decided, History
from lowtide.run.train.run_directory import RunDirectory, check_same_script, new_record
from lowtide.run.train.settings import AttemptSettings, read_settings


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    (tmp_path / "train.py").write_text("a = 1\nb = 2\n")
    monkeypatch.chdir(tmp_path)
    return Script("train.py", ("--epochs", "3"))


def test_a_run_is_created_and_read_again(tmp_path: Path, script: Script) -> None:
    directory = RunDirectory(tmp_path / "runs" / "a")
    assert not directory.exists
    record = new_record(script, budget_bytes=1 << 30, allow=["bfloat16"])
    directory.create(record)
    assert directory.exists
    assert directory.load() == record
    assert directory.changes_since(record) is None


def test_two_runs_have_different_seeds(script: Script) -> None:
    assert len({new_record(script).seed for _ in range(5)}) == 5


def test_a_directory_with_other_files_is_refused(tmp_path: Path, script: Script) -> None:
    with pytest.raises(LowtideError, match="holds other files"):
        RunDirectory(tmp_path).create(new_record(script))
    with pytest.raises(LowtideError, match="needs a directory"):
        RunDirectory(tmp_path / "train.py").create(new_record(script))


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LowtideError, match="there is no run"):
        RunDirectory(tmp_path).load()


def test_a_run_of_a_newer_version_is_refused(tmp_path: Path, script: Script) -> None:
    directory = RunDirectory(tmp_path / "a")
    directory.create(new_record(script))
    path = tmp_path / "a" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    with pytest.raises(LowtideError, match="newer version"):
        directory.load()
    path.write_text("{}")
    with pytest.raises(LowtideError, match="damaged"):
        directory.load()


def test_another_program_is_refused(tmp_path: Path, script: Script) -> None:
    record = new_record(script)
    check_same_script(tmp_path, record, script)
    (tmp_path / "other.py").write_text("")
    for other in (
        Script("train.py", ("--epochs", "4")),
        Script("other.py", ("--epochs", "3")),
        Script("train.py", ("--epochs", "3"), is_module=True),
    ):
        with pytest.raises(LowtideError, match="the run of another program"):
            check_same_script(tmp_path, record, other)


def test_a_changed_script_is_described(tmp_path: Path, script: Script) -> None:
    directory = RunDirectory(tmp_path / "a")
    record = new_record(script)
    directory.create(record)
    (tmp_path / "train.py").write_text("a = 1\nb = 3\nc = 4\n")
    words = directory.changes_since(record)
    assert words == (
        "train.py has changed since the run began: 1 lines removed, 2 added, the first at line 2, now 'b = 3'"
    )


def test_a_run_in_use_is_locked(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from lowtide.run.train.run_directory import RunDirectory\n"
        "RunDirectory(Path(sys.argv[1])).lock()\nprint('locked', flush=True)\ninput()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(LowtideError, match=f"process {process.pid}"):
            directory.lock()
    finally:
        process.kill()
        process.communicate()
    # The lock of a process that was killed is gone.
    directory.lock()
    directory.unlock()


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    history = History(tmp_path)
    assert history.read() == []
    first = AttemptStarted(attempt=1, command=("train.py",), budget_bytes=None)
    second = CheckpointWritten(
        attempt=1, name="000000000010", reason="5 minutes", epoch=0, step=10, steps_done=10, bytes=100, seconds=0.5
    )
    history.append(first)
    events, offset = history.read_from(0)
    history.append(second)
    assert events == [first]
    assert history.read_from(offset)[0] == [second]
    assert history.read() == [first, second]


def test_lines_that_are_cut_off_or_unknown_are_passed_over(tmp_path: Path) -> None:
    history = History(tmp_path)
    event = Decided(attempt=2, change="smaller plan", reason="it ran out")
    history.append(event)
    with history.path.open("a") as file:
        file.write('{"kind": "Later", "attempt": 3}\n{"kind": "Decided", "at\n')
    history.append(event)
    with history.path.open("a") as file:
        file.write('{"kind": "Decided"')
    assert history.read() == [event, event]


def test_an_event_after_one_that_a_full_disk_has_cut_off_is_kept(tmp_path: Path) -> None:
    """The system cuts files off at a size, as a full disk does."""
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from lowtide.run.train.history import Decided, History\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n"
        "History(Path(sys.argv[1])).append(Decided(attempt=1, change='smaller plan', reason='it ran out'))"
    )
    ended = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert "No space left on device" in ended.stderr
    history = History(tmp_path)
    assert history.path.stat().st_size == 50
    event = Decided(attempt=2, change="smaller plan", reason="it ran out")
    history.append(event)
    assert history.read() == [event]


def test_settings_pass_through_the_environment() -> None:
    settings = AttemptSettings("runs/a", 2, seed=7, budget_bytes=1 << 30, allow=("bfloat16",), checkpoint_steps=5)
    assert read_settings(settings.to_environment()) == settings
    assert read_settings({}) is None
    assert settings.changed(attempt=3).attempt == 3
