"""The directory of a run: which program it belongs to, who is using it, and where its files are."""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import lowtide
from lowtide.errors import LowtideError
from lowtide.run.train.history import History

SCHEMA_VERSION = 1
_RECORD = "run.json"
_LOCK = "lock"
_SCRIPT = "script.txt"
_SEEDS = 1 << 31


@dataclass(frozen=True)
class Program:
    """The program of a run, as it was started."""

    target: str
    """The script or the module, as the user named it; "" for a program that lowtide did not start."""
    arguments: tuple[str, ...]
    is_module: bool = False
    folder: str = ""
    """The working directory."""
    interpreter: str = ""

    @property
    def words(self) -> str:
        """The program as a command line."""
        return " ".join([*(["-m"] if self.is_module else []), self.target, *self.arguments])

    @property
    def path(self) -> Path:
        """The script's file."""
        return Path(self.folder) / self.target


@dataclass(frozen=True)
class RunRecord:
    """What does not change over the attempts of a run."""

    program: Program
    seed: int
    digest: str | None
    """The SHA-256 of the script when the run began; None for a module."""
    budget_bytes: int | None = None
    allow: tuple[str, ...] = ()
    checkpoint_seconds: float | None = None
    checkpoint_steps: int | None = None
    lowtide_version: str = lowtide.__version__


def this_program() -> Program:
    """Return the program that this process runs, for a run without a supervisor."""
    return Program(sys.argv[0] if sys.argv else "", tuple(sys.argv[1:]), folder=str(Path.cwd()))


class RunDirectory:
    """The directory of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self.plans = folder / "plans"
        self.scalars = folder / "tensorboard"
        self.log = folder / "log.txt"
        self.history = History(folder)
        self._lock_file: int | None = None

    @property
    def exists(self) -> bool:
        """Whether a run has been started here."""
        return (self.folder / _RECORD).exists()

    def attempt_folder(self, number: int) -> Path:
        """Return the folder with the output of an attempt."""
        return self.folder / "attempts" / str(number)

    def create(self, record: RunRecord) -> None:
        """Begin a run in this directory, which must be empty or missing."""
        if self.folder.is_file():
            raise LowtideError("a run needs a directory", given=self.folder, cure="name another one")
        others = [path.name for path in self.folder.iterdir() if path.name != _LOCK] if self.folder.is_dir() else []
        if others:
            given = f"{self.folder}, with {', '.join(sorted(others)[:3])}"
            raise LowtideError("the directory holds other files", given=given, cure="name a new directory")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LowtideError(f"cannot create the directory: {error.strerror}", given=self.folder) from error
        if record.digest is not None:
            (self.folder / _SCRIPT).write_bytes(record.program.path.read_bytes())
        self._write(record)

    def load(self) -> RunRecord:
        """Return the record of the run."""
        path = self.folder / _RECORD
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            version = int(stored.pop("schema_version"))
        except FileNotFoundError:
            cure = "name the directory that was given to --out"
            raise LowtideError("there is no run in this directory", given=self.folder, cure=cure) from None
        except (ValueError, KeyError, AttributeError) as error:
            raise LowtideError("the record of the run is damaged", given=path, cure="start a new run") from error
        if version > SCHEMA_VERSION:
            given = f"{self.folder}, lowtide {stored.get('lowtide_version')}"
            raise LowtideError("the run was started by a newer version of lowtide", given=given, cure="install it")
        program = Program(**{**stored["program"], "arguments": tuple(stored["program"]["arguments"])})
        return RunRecord(**{**stored, "program": program, "allow": tuple(stored["allow"])})

    def lock(self) -> None:
        """Keep other processes out of this directory until this process ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
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
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._lock_file = handle

    def unlock(self) -> None:
        """Let other processes use the directory."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def changes_since(self, record: RunRecord) -> str | None:
        """Return what has changed in the script since the run began, as one sentence; None if nothing has."""
        if record.digest is None:
            return None
        path = record.program.path
        try:
            text = path.read_bytes()
        except OSError as error:
            raise LowtideError(f"the run's script cannot be read: {error.strerror}", given=path) from error
        if hashlib.sha256(text).hexdigest() == record.digest:
            return None
        before = (self.folder / _SCRIPT).read_text(encoding="utf-8", errors="replace").splitlines()
        after = text.decode("utf-8", "replace").splitlines()
        return f"{record.program.target} has changed since the run began: {_describe_changes(before, after)}"

    def _write(self, record: RunRecord) -> None:
        part = self.folder / f"{_RECORD}.part"
        content = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(record)}, indent=2)
        part.write_text(content, encoding="utf-8")
        part.replace(self.folder / _RECORD)


def new_record(
    program: Program,
    *,
    budget_bytes: int | None = None,
    allow: Sequence[str] = (),
    checkpoint_seconds: float | None = None,
    checkpoint_steps: int | None = None,
) -> RunRecord:
    """Return the record of a new run, with a seed of its own."""
    digest = None
    if not program.is_module and program.path.is_file():
        digest = hashlib.sha256(program.path.read_bytes()).hexdigest()
    return RunRecord(
        program,
        random.SystemRandom().randrange(_SEEDS),
        digest,
        budget_bytes,
        tuple(allow),
        checkpoint_seconds,
        checkpoint_steps,
    )


def check_same_program(folder: Path, record: RunRecord, program: Program) -> None:
    """Refuse to continue the run of one program with another one."""
    known = record.program
    same = (known.path.resolve(), known.is_module, known.arguments) == (
        program.path.resolve(),
        program.is_module,
        program.arguments,
    )
    if not same:
        raise LowtideError(
            f"{folder} holds the run of another program",
            given=f"{program.words}, and the run is of {known.words}",
            cure=f"name another directory, or continue that run: lowtide train --resume {folder}",
        )


def _describe_changes(before: list[str], after: list[str]) -> str:
    """Return the lines that differ, the first of them in words."""
    blocks = [block for block in difflib.SequenceMatcher(None, before, after).get_opcodes() if block[0] != "equal"]
    added = sum(high - low for _, _, _, low, high in blocks)
    removed = sum(high - low for _, low, high, _, _ in blocks)
    _, old, _, new, new_end = blocks[0]
    line = after[new] if new < new_end else before[old]
    what = "now" if new < new_end else "no longer"
    return f"{removed} lines removed, {added} added, the first at line {new + 1}, {what} {line.strip()!r}"
