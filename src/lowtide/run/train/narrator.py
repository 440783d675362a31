"""The events of a run as lines for a person: in the terminal, and in the run's log."""

from __future__ import annotations

from pathlib import Path

from lowtide.progress import format_duration
from lowtide.run.train.decisions import DEVICE_MEMORY, FINISHED, HOST_MEMORY, INTERRUPTED, RESTART
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
    StepsDone,
    TrainingEnded,
    TrainingStarted,
)
from lowtide.units import format_bytes, format_count

STOPPED = "stopped"
"""The status of a run that can be continued."""


class Narrator:
    """Turns the events of a run, in their order, into lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._attempt = 0
        self._steps_done = 0
        self._budget_bytes: int | None = None
        self._checkpoint_time: float | None = None
        self._has_plan = False
        """Whether a step of this attempt was planned or found to fit."""

    def lines(self, event: Event) -> tuple[str, ...]:
        """Return what to print for an event; nothing for those that other lines include."""
        match event:
            case AttemptStarted():
                self._attempt, self._budget_bytes = event.attempt, event.budget_bytes
                self._has_plan = False
                return (_attempt_line(event),)
            case TrainingStarted():
                self._steps_done = event.steps_done
                return _training_lines(event)
            case Planned():
                self._budget_bytes = event.budget_bytes
                is_first, self._has_plan = not self._has_plan, True
                return (_plan_line(event, _step_words(event.batch_size, is_first=is_first)), *event.notes)
            case CheckpointWritten():
                # It has the state of when it was begun; steps that were done meanwhile are known already.
                self._checkpoint_time = event.time - event.seconds
                self._steps_done = max(self._steps_done, event.steps_done)
                return ()
            case EpochEnded() | StepsDone():
                self._steps_done = event.steps_done
                return (self._epoch_line(event),)
            case TrainingEnded():
                self._steps_done = event.steps_done
                return ()
            case Note():
                return (event.text,)
            case AttemptEnded():
                return _end_lines(event)
            case Decided():
                return (f"{event.change}: {event.reason}",)
            case RunEnded():
                return self._last_lines(event)
        return ()

    def _epoch_line(self, event: EpochEnded | StepsDone) -> str:
        number = f"{event.epoch + 1}" if event.epochs is None else f"{event.epoch + 1}/{event.epochs}"
        parts = [f"epoch {number}"]
        if isinstance(event, StepsDone):
            parts.append(f"step {event.step:,}" if event.steps is None else f"step {event.step:,}/{event.steps:,}")
        parts += [f"{name} {value:.4g}" for name, value in event.logs.items()]
        if event.step_seconds is not None:
            parts.append(f"{_step_time(event.step_seconds)}/step")
        if event.device_bytes is not None:
            of = "" if self._budget_bytes is None else f" of {format_bytes(self._budget_bytes)}"
            parts.append(f"{format_bytes(event.device_bytes)}{of}")
        if self._checkpoint_time is not None:
            parts.append(f"checkpoint {format_duration(max(0.0, event.time - self._checkpoint_time))} ago")
        return "  ".join(parts)

    def _last_lines(self, event: RunEnded) -> tuple[str, ...]:
        steps, attempts = format_count(self._steps_done, "step"), format_count(self._attempt, "attempt")
        if event.status == FINISHED:
            return (f"finished after {steps} in {attempts}",)
        if event.status == STOPPED:
            return (f"stopped after {steps}; to continue: lowtide train --resume {self.folder}",)
        return (f"gave up after {attempts}; to try again: lowtide train --resume {self.folder}",)


def _attempt_line(event: AttemptStarted) -> str:
    line = f"attempt {event.attempt}: {' '.join(event.command)}"
    if event.changes:
        return f"{line}; changed: {', '.join(event.changes)}"
    return line if event.budget_bytes is None else f"{line}, within {format_bytes(event.budget_bytes)}"


def _training_lines(event: TrainingStarted) -> tuple[str, ...]:
    if event.checkpoint is not None:
        place = f"in epoch {event.epoch + 1}, after step {event.step:,} of it"
        place = place if event.step else f"with epoch {event.epoch + 1}"
        return (f"restored the checkpoint of step {event.steps_done:,}: continues {place}",)
    again = "; there is no checkpoint to continue from" if event.attempt > 1 and event.training == 0 else ""
    epochs = [] if event.epochs is None else [format_count(event.epochs, "epoch", "epochs")]
    steps = [] if event.steps is None else [format_count(event.steps, "step")]
    size = f": {' of '.join([*epochs, *steps])}" if epochs or steps else ""
    which = "the training begins" if event.training == 0 else f"training {event.training + 1} begins"
    return (f"{which}{size}{again}",)


def _step_words(batch_size: int | None, *, is_first: bool) -> str:
    """Name a step: after the first one come others, as for the last batch of an epoch, which may be smaller."""
    if is_first:
        return "the step"
    return "another step" if batch_size is None else f"the step for a batch of {batch_size}"


def _plan_line(event: Planned, step: str) -> str:
    needs, budget = format_bytes(event.predicted_bytes), format_bytes(event.budget_bytes)
    if event.planned_bytes is None:
        return f"{step} fits as it is: {needs} of {budget}"
    pieces = "" if event.pieces < 2 else f", in {event.pieces} micro-batches"
    return (
        f"{step} needs {needs} as it is written; planned for {budget}: {format_bytes(event.planned_bytes)}"
        f"{pieces}, {event.slowdown - 1:+.0%} time"
    )


def _end_lines(event: AttemptEnded) -> tuple[str, ...]:
    if event.cause == FINISHED:
        return ()
    cause = {
        DEVICE_MEMORY: "out of the device's memory",
        HOST_MEMORY: "out of the host's memory",
        RESTART: "memory would have run out before the next checkpoint",
        INTERRUPTED: "interrupted",
    }.get(event.cause)
    words = event.words if cause is None else f"{cause}: {event.words}"
    first = f"attempt {event.attempt} ended after {format_duration(event.seconds)}: {words}"
    return (first, *event.explanation[:1])


def _step_time(seconds: float) -> str:
    """Return the time of a step: "38.1 ms", "0.82 ms", "1.04 s"."""
    value, unit = (seconds, "s") if seconds >= 0.9995 else (1000 * seconds, "ms")
    return f"{value:,.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"
