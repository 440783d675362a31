"""What is shown of a training run: its attempts, its epochs, and how far it is."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from lowtide.progress import format_duration
from lowtide.run.train.decisions import (
    DEVICE_MEMORY,
    FAILURE,
    FINISHED,
    HOST_MEMORY,
    INTERRUPTED,
    KILLED,
    RESTART,
)
from lowtide.run.train.history import (
    AttemptEnded,
    AttemptStarted,
    CheckpointWritten,
    Decided,
    EpochEnded,
    Event,
    Note,
    Planned,
    RunEnded,
    TrainingEnded,
    TrainingStarted,
)
from lowtide.run.train.narrator import STOPPED
from lowtide.run.train.run_directory import RunDirectory, TrainingRecord
from lowtide.units import format_bytes, format_count

GIVEN_UP = "failed"
RUNNING = "running"
LOST = "lost"
"""The end of a run, or of an attempt, is not in its history: its process was killed, or the machine stopped."""

STATES = {
    FINISHED: "Finished",
    STOPPED: "Stopped",
    GIVEN_UP: "Given up",
    RUNNING: "Running",
    LOST: "Not running",
}
"""What a run is in, and the words for it."""

CAUSES = {
    FINISHED: "finished",
    INTERRUPTED: "interrupted",
    DEVICE_MEMORY: "device memory ran out",
    HOST_MEMORY: "host memory ran out",
    RESTART: "memory nearly ran out",
    KILLED: "killed",
    FAILURE: "failure",
    RUNNING: "running",
    LOST: "no end recorded",
}
"""What ended an attempt, and the words for it."""

CAUSE_COLOURS = {
    FINISHED: "#3fa768",
    INTERRUPTED: "#5f7f8f",
    DEVICE_MEMORY: "#e5484d",
    HOST_MEMORY: "#f0794a",
    RESTART: "#e9b93f",
    KILLED: "#7c5cd6",
    FAILURE: "#c25a93",
    RUNNING: "#12a5b0",
    LOST: "#8d99a6",
}

# The events that are recorded while the script of an attempt runs.
_OF_THE_SCRIPT = (TrainingStarted, Planned, CheckpointWritten, EpochEnded, TrainingEnded)
_SHOWN_LOGS = 3

_Kind = TypeVar("_Kind", bound=Event)


@dataclass
class ShownAttempt:
    """An attempt, as its events tell it."""

    number: int
    began: float
    """Seconds since 1970."""
    ended: float
    """The time of the last event while it runs, or if its end is not recorded."""
    cause: str = LOST
    """One of `CAUSES`."""
    words: str | None = None
    """How its process ended."""
    explanation: str | None = None
    """Why memory ran out, in a sentence."""
    advice: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """What differs from the first attempt."""
    budget_bytes: int | None = None
    """What steps are planned for."""
    is_supervised: bool = False
    restored: TrainingStarted | None = None
    """The first training that continued from a checkpoint."""
    plan: Planned | None = None
    checkpoints: list[CheckpointWritten] = field(default_factory=list)
    decision: Decided | None = None
    """What was changed after it."""

    @property
    def seconds(self) -> float:
        """How long it took so far."""
        return max(0.0, self.ended - self.began)

    @property
    def detail(self) -> str | None:
        """What is known about its end beyond the cause."""
        return None if self.cause == FINISHED else self.words

    @property
    def origin(self) -> str:
        """Where its training began, in words."""
        return "the start" if self.restored is None else f"step {self.restored.steps_done:,}"


@dataclass(frozen=True)
class TrainingRunReport:
    """A training run: its record and its history."""

    folder: str
    """The directory as a user would type it."""
    record: TrainingRecord
    events: Sequence[Event]
    state: str
    """One of `STATES`."""
    now: float
    """When this was read, in seconds since 1970."""

    @property
    def title(self) -> str:
        """The script as a command line."""
        return self.record.words

    @cached_property
    def attempts(self) -> list[ShownAttempt]:
        """All attempts, the first one first."""
        attempts = _collect(self.events)
        last = attempts[-1] if attempts else None
        if last is not None and last.cause == LOST:
            if self.state == RUNNING:
                last.cause, last.ended = RUNNING, max(self.now, last.ended)
            elif self.state == FINISHED:
                last.cause = FINISHED
        return attempts

    @cached_property
    def epochs(self) -> list[EpochEnded]:
        """All epochs that have ended; of one that was trained again, the last time."""
        return list({(event.training, event.epoch): event for event in self._of(EpochEnded)}.values())

    @cached_property
    def notes(self) -> list[Note]:
        """All sentences for the user."""
        return self._of(Note)

    @property
    def steps_done(self) -> int:
        """How many steps the run is known to have reached."""
        return max((getattr(event, "steps_done", 0) for event in self.events), default=0)

    @property
    def seconds(self) -> float:
        """The time of all attempts together."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def checkpoint(self) -> CheckpointWritten | None:
        """The last checkpoint."""
        return next(reversed(self._of(CheckpointWritten)), None)

    @property
    def highest_device_bytes(self) -> int | None:
        """The highest memory in use on the device."""
        return max((each.device_bytes for each in self._of(EpochEnded) if each.device_bytes is not None), default=None)

    @property
    def resume_command(self) -> str | None:
        """The command that continues the run; None if it is finished or running."""
        if self.state in (FINISHED, RUNNING):
            return None
        if self.attempts and not self.attempts[-1].is_supervised:
            return f"python {self.title}"
        return f"lowtide train --resume {shlex.quote(self.folder)}"

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about a run that was given up because memory ran out."""
        return self.attempts[-1].advice if self.state == GIVEN_UP and self.attempts else ()

    @property
    def progress_line(self) -> str:
        """How far the training is: "epoch 3 of 10, loss 0.312"."""
        begun = self._of(TrainingStarted)
        if not begun:
            return "no training has begun"
        training, epochs = begun[-1].training, begun[-1].epochs
        ended = [event for event in self.epochs if event.training == training]
        of = "" if epochs is None else f" of {epochs:,}"
        noun = "epoch" if (epochs or len(ended)) == 1 else "epochs"
        done = f"{len(ended):,}{of} {noun}"
        which = f"training {training + 1}: " if training else ""
        logs = list(numbers_of(ended[-1]).items()) if ended else []
        return ", ".join([f"{which}{done}", *(f"{name} {value:.4g}" for name, value in logs[:_SHOWN_LOGS])])

    @property
    def attempts_line(self) -> str:
        """How many attempts there were and how long they took."""
        if not self.attempts:
            return "nothing has been started"
        return f"{format_count(len(self.attempts), 'attempt')}, {format_duration(self.seconds)}"

    @property
    def state_line(self) -> str:
        """The state, with the steps and the attempts that led to it."""
        after = f" after {format_count(self.steps_done, 'step')} in {self.attempts_line}" if self.attempts else ""
        return f"{STATES[self.state]}{after}"

    @property
    def checkpoint_line(self) -> str | None:
        """The last checkpoint; None if there is none."""
        last = self.checkpoint
        if last is None:
            return None
        return f"step {last.steps_done:,}: {describe_checkpoint(last)}"

    @property
    def metrics(self) -> list[str]:
        """The names of the logs that are drawn: the losses, or the first one if none is called so."""
        names = list(dict.fromkeys(name for event in self.epochs for name in numbers_of(event)))
        return [name for name in names if "loss" in name] or names[:1]

    @property
    def option_lines(self) -> list[tuple[str, str]]:
        """The options of the run, each with its label."""
        record = self.record
        every = [] if record.checkpoint_seconds is None else [format_duration(record.checkpoint_seconds)]
        if record.checkpoint_steps is not None:
            every.append(format_count(record.checkpoint_steps, "step"))
        options = [
            ("script", self.title),
            ("directory", self.folder),
            ("budget", None if record.budget_bytes is None else format_bytes(record.budget_bytes)),
            ("allowed", ", ".join(record.allow) or None),
            ("checkpoints every", " and ".join(every) or None),
            ("seed", str(record.seed)),
        ]
        return [(label, text) for label, text in options if text is not None]

    def _of(self, kind: type[_Kind]) -> list[_Kind]:
        return [event for event in self.events if isinstance(event, kind)]


def numbers_of(event: EpochEnded) -> dict[str, float]:
    """Return the logs of an epoch that are numbers."""
    numbers = {}
    for name, value in event.logs.items():
        # A number of a type that JSON does not know is recorded as text.
        with suppress(ValueError, TypeError):
            numbers[name] = float(value)
    return numbers


def read_run_report(folder: Path) -> TrainingRunReport:
    """Return the report of the run in a directory, as it is now."""
    directory = RunDirectory(folder)
    record, events = directory.load(), directory.history.read()
    shown = Path(os.path.relpath(folder)) if folder.absolute().is_relative_to(Path.cwd()) else folder
    return TrainingRunReport(str(shown), record, events, _state(events, directory), time.time())


def _state(events: Sequence[Event], directory: RunDirectory) -> str:
    last = next(
        (event for event in reversed(events) if isinstance(event, (RunEnded, AttemptStarted, *_OF_THE_SCRIPT))), None
    )
    if isinstance(last, RunEnded):
        return last.status if last.status in STATES else LOST
    if directory.is_in_use:
        return RUNNING
    if not isinstance(last, TrainingEnded):
        return LOST
    # Without a supervisor, nothing follows the end of the last training.
    is_supervised = any(isinstance(event, AttemptStarted) and event.attempt == last.attempt for event in events)
    return LOST if is_supervised else FINISHED


def describe_checkpoint(checkpoint: CheckpointWritten) -> str:
    """Return the size of a checkpoint, how long it took, and why it was written."""
    parts = [format_bytes(checkpoint.bytes), f"written in {format_duration(checkpoint.seconds)}"]
    if checkpoint.blocked_seconds is not None and checkpoint.blocked_seconds < checkpoint.seconds:
        parts.append(f"of which the training waited {format_duration(checkpoint.blocked_seconds)}")
    return ", ".join([*parts, checkpoint.reason])


def _collect(events: Sequence[Event]) -> list[ShownAttempt]:
    attempts: dict[int, ShownAttempt] = {}
    last: ShownAttempt | None = None
    for event in events:
        if isinstance(event, Decided):
            # It has the number of the attempt that follows.
            if last is not None:
                last.decision = event
            continue
        if isinstance(event, (AttemptStarted, AttemptEnded, *_OF_THE_SCRIPT)):
            began = event.time - (event.seconds if isinstance(event, AttemptEnded) else 0)
            last = attempts.setdefault(event.attempt, ShownAttempt(event.attempt, began, event.time))
            last.ended = max(last.ended, event.time)
            _add(last, event)
    return list(attempts.values())


def _add(attempt: ShownAttempt, event: Event) -> None:
    match event:
        case AttemptStarted():
            attempt.is_supervised = True
            attempt.changes, attempt.budget_bytes = event.changes, event.budget_bytes
        case TrainingStarted():
            if event.checkpoint is not None and attempt.restored is None:
                attempt.restored = event
        case Planned():
            attempt.plan = event
        case CheckpointWritten():
            attempt.checkpoints.append(event)
        case AttemptEnded():
            attempt.cause = event.cause if event.cause in CAUSES else LOST
            attempt.words, attempt.advice = event.words, event.explanation[1:]
            attempt.explanation = event.explanation[0] if event.explanation else None
            attempt.is_supervised = True
