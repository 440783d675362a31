"""What happened in a run: events, one JSON object in each line of `history.jsonl`.

The supervisor and the script's process append to the same file, each line in one write.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in an attempt."""

    attempt: int
    time: float = field(default_factory=time.time)
    """Seconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class AttemptStarted(Event):
    """The script was started."""

    command: tuple[str, ...]
    budget_bytes: int | None
    changes: tuple[str, ...] = ()
    """What differs from the first attempt."""


@dataclass(frozen=True, kw_only=True)
class TrainingStarted(Event):
    """A training began or continued: a call of `fit`, or a loop written by hand."""

    training: int
    """Which training of the script; the first is 0."""
    epoch: int
    step: int
    epochs: int | None
    steps: int | None
    """Batches of an epoch."""
    steps_done: int
    """Steps of the whole run before this one."""
    checkpoint: str | None = None
    """The checkpoint that was restored."""
    can_plan: bool = True
    """Whether the steps can be planned without a change of the script."""


@dataclass(frozen=True, kw_only=True)
class Planned(Event):
    """The step was predicted, and planned if it does not fit."""

    predicted_bytes: int
    """The safe bound of the step as written."""
    budget_bytes: int
    planned_bytes: int | None = None
    """The safe bound of the planned step; None if the step fits as it is."""
    slowdown: float = 1.0
    pieces: int = 1
    training: int = 0
    batch_size: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CheckpointWritten(Event):
    """A checkpoint is complete."""

    name: str
    reason: str
    epoch: int
    step: int
    steps_done: int
    bytes: int
    seconds: float
    """How long it took, from the time of its state until it was complete."""
    blocked_seconds: float | None = None
    """How much of that the training waited; None if the history is older than checkpoints in the background."""


@dataclass(frozen=True, kw_only=True)
class StepsDone(Event):
    """A part of an epoch is done: an epoch that takes long is told of every minute."""

    training: int
    epoch: int
    epochs: int | None
    step: int
    """The steps of the epoch that are done."""
    steps: int | None
    """The steps of an epoch."""
    steps_done: int
    logs: dict[str, float]
    step_seconds: float | None
    device_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class EpochEnded(Event):
    """An epoch ended."""

    training: int
    epoch: int
    epochs: int | None
    steps_done: int
    logs: dict[str, float]
    step_seconds: float | None
    """The median time of a step."""
    device_bytes: int | None = None
    """The highest memory in use on the device, as far as the process knows."""
    resident_bytes: int | None = None
    """The process's memory."""


@dataclass(frozen=True, kw_only=True)
class Note(Event):
    """A sentence for the user."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Failed(Event):
    """The script's process is about to end with an exception, as it sees it itself."""

    error: str
    """The name of the exception's class."""
    message: str
    is_memory: bool
    steps_done: int


@dataclass(frozen=True, kw_only=True)
class TrainingEnded(Event):
    """A training reached its end."""

    training: int
    steps_done: int


@dataclass(frozen=True, kw_only=True)
class LeftTraining(Event):
    """The script ended itself within a training, without an error: by `sys.exit()` in a callback."""

    training: int


@dataclass(frozen=True, kw_only=True)
class AttemptEnded(Event):
    """The script's process ended."""

    cause: str
    """One of `decisions.CAUSES`."""
    words: str
    exit_code: int
    signal: int | None
    seconds: float
    explanation: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decided(Event):
    """What the next attempt changes, and why."""

    change: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """The supervisor ended."""

    status: str
    """"finished", "stopped" or "failed"."""
    exit_code: int


_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}


class History:
    """The events of a run, in a file that several processes append to."""

    NAME: ClassVar[str] = "history.jsonl"

    def __init__(self, folder: Path) -> None:
        self.path = folder / self.NAME

    def append(self, event: Event) -> None:
        """Add an event; a line is written at once, so that lines of two processes never mix."""
        content = {"schema_version": SCHEMA_VERSION, "kind": type(event).__name__, **asdict(event)}
        line = (json.dumps(content, default=str) + "\n").encode()
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                # A full disk has cut off the line before.
                line = b"\n" + line
            if os.write(handle, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            os.close(handle)

    def read(self) -> list[Event]:
        """Return all events, the oldest first."""
        return list(self.read_from(0)[0])

    def read_from(self, offset: int) -> tuple[list[Event], int]:
        """Return the events after a position in the file, and the position after them."""
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except FileNotFoundError:
            return [], offset
        complete = data[: data.rfind(b"\n") + 1]
        return list(_parse(complete)), offset + len(complete)


def _parse(data: bytes) -> Iterator[Event]:
    for line in data.splitlines():
        try:
            stored = json.loads(line)
            event = _event(_KINDS[stored["kind"]], stored)
        except (ValueError, KeyError, TypeError):
            # Cut off by a full disk, or an event of a later version.
            continue
        yield event


def _event(kind: type[Event], stored: Mapping[str, Any]) -> Event:
    known = {each.name for each in fields(kind)}
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items() if name in known
    }
    return kind(**given)
