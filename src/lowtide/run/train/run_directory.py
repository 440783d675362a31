"""The directory of a run: which program it belongs to, who is using it, and where its files are."""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import random
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lowtide.errors import LowtideError
from lowtide.run.launch import Script
from lowtide.run.train.history import History

SCHEMA_VERSION = 1
_RECORD = "run.json"
_LOCK = "lock"
_SCRIPT = "script.txt"
_SEEDS = 1 << 31


@dataclass(frozen=True)
class TrainingRecord:
    """What does not change over the attempts of a run."""

    script: Script
    folder: str
    """The working directory."""
    seed: int
    digest: str | None
    """The SHA-256 of the script when the run began; None for a module."""
    budget_bytes: int | None = None
    allow: tuple[str, ...] = ()
    checkpoint_seconds: float | None = None
    checkpoint_steps: int | None = None

    @property
    def path(self) -> Path:
        """The script's file."""
        return Path(self.folder) / self.script.target

    @property
    def words(self) -> str:
        """The script as a command line."""
        return shlex.join(self.script.command)


def this_script() -> Script:
    """Return the script that this process runs, for a run without a supervisor."""
    return Script(sys.argv[0] if sys.argv else "", tuple(sys.argv[1:]))


class RunDirectory:
    """The directory of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self.plans = folder / "plans"
        self.tides = folder / "tides"
        self.scalars = folder / "tensorboard"
        self.log = folder / "log.txt"
        self.history = History(folder)
        self._lock_file: int | None = None

    @property
    def exists(self) -> bool:
        """Whether a run has been started here."""
        return (self.folder / _RECORD).exists()

    @property
    def is_in_use(self) -> bool:
        """Whether a process holds the lock.

        This takes the lock for a moment, so ask only if the history does not say that the run has ended.
        """
        try:
            handle = os.open(self.folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            # A file system without locks.
            return False
        finally:
            os.close(handle)
        return False

    def attempt_folder(self, number: int) -> Path:
        """Return the folder with the output of an attempt."""
        return self.folder / "attempts" / str(number)

    def check_is_free(self) -> None:
        """Refuse a directory in which no run can begin: it must be empty or missing."""
        if self.folder.is_file():
            raise LowtideError("a run needs a directory", given=self.folder, cure="name another one")
        others = [path.name for path in self.folder.iterdir() if path.name != _LOCK] if self.folder.is_dir() else []
        if others:
            given = f"{self.folder}, with {', '.join(sorted(others)[:3])}"
            raise LowtideError("the directory holds other files", given=given, cure="name a new directory")

    def create(self, record: TrainingRecord) -> None:
        """Begin a run in this directory, which must be empty or missing."""
        self.check_is_free()
        self._make()
        self.begin(record)

    def begin(self, record: TrainingRecord) -> None:
        """Begin a run in this directory, in place of one that has trained nothing."""
        if record.digest is not None:
            (self.folder / _SCRIPT).write_bytes(record.path.read_bytes())
        self._write(record)

    def load(self) -> TrainingRecord:
        """Return the record of the run."""
        path = self.folder / _RECORD
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            version = int(stored.pop("schema_version"))
        except FileNotFoundError:
            cure = "name the directory that was given to --out"
            raise LowtideError("there is no run in this directory", given=self.folder, cure=cure) from None
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise _damaged(path) from error
        if version > SCHEMA_VERSION:
            cure = "install that version, or start a new run"
            raise LowtideError("the run was started by a newer version of lowtide", given=self.folder, cure=cure)
        try:
            script = Script(**{**stored["script"], "arguments": tuple(stored["script"]["arguments"])})
            return TrainingRecord(**{**stored, "script": script, "allow": tuple(stored["allow"])})
        except (KeyError, TypeError) as error:
            raise _damaged(path) from error

    def update(self, record: TrainingRecord) -> None:
        """Replace the record of the run by one with other options."""
        self._write(record)

    def lock(self, *, with_children: bool = False) -> None:
        """Keep other processes out of this directory until this process ends, and its later children if wanted."""
        self._make()
        handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 64, 0).decode(errors="replace").strip()
            os.close(handle)
            raise LowtideError(
                "another process is using this run",
                given=f"{self.folder}, process {holder or 'unknown'}",
                cure="wait until it ends, or stop it",
            ) from None
        os.set_inheritable(handle, with_children)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._lock_file = handle

    def unlock(self) -> None:
        """Let other processes use the directory."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def changes_since(self, record: TrainingRecord) -> str | None:
        """Return what has changed in the script since the run began, as one sentence; None if nothing has."""
        if record.digest is None:
            return None
        path = record.path
        try:
            text = path.read_bytes()
        except OSError as error:
            raise LowtideError(f"the run's script cannot be read: {error.strerror}", given=path) from error
        if hashlib.sha256(text).hexdigest() == record.digest:
            return None
        before = (self.folder / _SCRIPT).read_text(encoding="utf-8", errors="replace").splitlines()
        after = text.decode("utf-8", "replace").splitlines()
        return f"{record.script.target} has changed since the run began: {_describe_changes(before, after)}"

    def _make(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LowtideError(f"cannot create the directory: {error.strerror}", given=self.folder) from error

    def _write(self, record: TrainingRecord) -> None:
        part = self.folder / f"{_RECORD}.part"
        content = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(record)}, indent=2)
        part.write_text(content, encoding="utf-8")
        part.replace(self.folder / _RECORD)


def new_record(
    script: Script,
    *,
    budget_bytes: int | None = None,
    allow: Sequence[str] = (),
    checkpoint_seconds: float | None = None,
    checkpoint_steps: int | None = None,
    folder: Path | None = None,
) -> TrainingRecord:
    """Return the record of a new run, with a seed of its own."""
    folder = folder or Path.cwd()
    path = folder / script.target
    digest = None
    if not script.is_module and path.is_file():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return TrainingRecord(
        script,
        str(folder),
        random.SystemRandom().randrange(_SEEDS),
        digest,
        budget_bytes,
        tuple(allow),
        checkpoint_seconds,
        checkpoint_steps,
    )


def check_same_script(directory: Path, record: TrainingRecord, script: Script, folder: Path | None = None) -> None:
    """Refuse to continue the run of one script with another one."""
    path = (folder or Path.cwd()) / script.target
    known = record.script
    if (record.path.resolve(), known.is_module, known.arguments) != (
        path.resolve(),
        script.is_module,
        script.arguments,
    ):
        raise LowtideError(
            f"{directory} holds the run of another program",
            given=f"{shlex.join(script.command)}, and the run is of {record.words}",
            cure=f"name another directory, or continue that run: lowtide train --resume {directory}",
        )


def _damaged(path: Path) -> LowtideError:
    return LowtideError("the record of the run is damaged", given=path, cure="start a new run")


def _describe_changes(before: list[str], after: list[str]) -> str:
    """Return the lines that differ, the first of them in words."""
    blocks = [block for block in difflib.SequenceMatcher(None, before, after).get_opcodes() if block[0] != "equal"]
    added = sum(high - low for _, _, _, low, high in blocks)
    removed = sum(high - low for _, low, high, _, _ in blocks)
    _, old, _, new, new_end = blocks[0]
    line = after[new] if new < new_end else before[old]
    what = "now" if new < new_end else "no longer"
    return f"{removed} lines removed, {added} added, the first at line {new + 1}, {what} {line.strip()!r}"
