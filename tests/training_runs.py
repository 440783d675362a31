"""Directories of training runs with hand-made histories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lowtide.run.launch import Script
from lowtide.run.train.history import (
    AttemptEnded,
    AttemptStarted,
    CheckpointWritten,
    Decided,
    EpochEnded,
    Event,
    Note,
    RunEnded,
    TrainingEnded,
    TrainingStarted,
)
from lowtide.run.train.run_directory import RunDirectory, new_record

GIB = 1 << 30
BEGAN = 1_790_000_000.0
STEPS = 100
"""Batches of an epoch."""
PAUSE_SECONDS = 12 * 3600.0


def write_run(folder: Path, events: Sequence[Event], budget_bytes: int | None = 8 * GIB) -> RunDirectory:
    """Write the directory of a run."""
    directory = RunDirectory(folder)
    directory.create(new_record(Script("train.py", ("--epochs", "6")), budget_bytes=budget_bytes, folder=folder.parent))
    directory.history.path.touch()
    for event in events:
        directory.history.append(event)
    return directory


def started(attempt: int, at: float, *, steps: int = 0, budget_bytes: int = 8 * GIB, changes: Sequence[str] = ()):
    """The script is started, and continues after `steps` steps."""
    command = ("train.py", "--epochs", "6")
    epoch, step = divmod(steps, STEPS)
    yield AttemptStarted(
        attempt=attempt, time=BEGAN + at, command=command, budget_bytes=budget_bytes, changes=tuple(changes)
    )
    yield TrainingStarted(
        attempt=attempt,
        time=BEGAN + at + 5,
        training=0,
        epoch=epoch,
        step=step,
        epochs=6,
        steps=STEPS,
        steps_done=steps,
        checkpoint=f"{steps:012}" if steps else None,
    )


def checkpoint(attempt: int, at: float, steps: int, reason: str = "5 minutes") -> CheckpointWritten:
    epoch, step = divmod(steps, STEPS)
    return CheckpointWritten(
        attempt=attempt,
        time=BEGAN + at,
        name=f"{steps:012}",
        reason=reason,
        epoch=epoch,
        step=step,
        steps_done=steps,
        bytes=100 << 20,
        seconds=0.4,
    )


def epoch(attempt: int, at: float, number: int, loss: float, device_bytes: int) -> list[Event]:
    """An epoch ends, the first one being 0, and a checkpoint is written."""
    ended = EpochEnded(
        attempt=attempt,
        time=BEGAN + at,
        training=0,
        epoch=number,
        epochs=6,
        steps_done=(number + 1) * STEPS,
        logs={"loss": loss, "accuracy": 0.9, "val_loss": loss * 1.2},
        step_seconds=0.6,
        device_bytes=device_bytes,
        resident_bytes=device_bytes + GIB,
    )
    return [ended, checkpoint(attempt, at + 0.5, (number + 1) * STEPS, "end of an epoch")]


def ended(attempt: int, at: float, seconds: float, cause: str, words: str, explanation: Sequence[str] = ()):
    return AttemptEnded(
        attempt=attempt,
        time=BEGAN + at,
        cause=cause,
        words=words,
        exit_code=0 if cause == "finished" else 1,
        signal=None,
        seconds=seconds,
        explanation=tuple(explanation),
    )


def decided(attempt: int, at: float, change: str, reason: str) -> Decided:
    return Decided(attempt=attempt, time=BEGAN + at, change=change, reason=reason)


def finished_run() -> list[Event]:
    """Out of the device's memory, killed, stopped overnight by Ctrl-C, continued, finished."""
    night = 420 + PAUSE_SECONDS
    less = "steps planned for 7.44 GiB"
    return [
        *started(1, 0),
        *epoch(1, 70, 0, 0.9, 7 * GIB),
        checkpoint(1, 100, 150),
        ended(
            1,
            120,
            120,
            "device memory",
            "ResourceExhaustedError: OOM when allocating tensor with shape[64,512,512]",
            ["the step is too large: 480.5 MiB was asked for", "use a smaller batch"],
        ),
        decided(2, 120, "steps are planned for 7.44 GiB", "the device's memory ran out with steps planned for 8 GiB"),
        *started(2, 121, steps=150, budget_bytes=int(7.44 * GIB), changes=[less]),
        *epoch(2, 160, 1, 0.7, int(6.9 * GIB)),
        Note(attempt=2, time=BEGAN + 170, text="the data is a Python generator: it is read again up to the position"),
        ended(2, 200, 79, "killed", "the process was killed by SIGKILL"),
        decided(3, 200, "the same settings, from the last checkpoint", "the process was killed by something else"),
        *started(3, 201, steps=200, budget_bytes=int(7.44 * GIB), changes=[less]),
        *epoch(3, 270, 2, 0.5, int(7.2 * GIB)),
        *epoch(3, 340, 3, 0.4, int(7.2 * GIB)),
        checkpoint(3, 420, 450, "SIGINT"),
        ended(3, 420, 219, "interrupted", "by SIGINT"),
        RunEnded(attempt=3, time=BEGAN + 420, status="stopped", exit_code=130),
        *started(4, night, steps=450, budget_bytes=int(7.44 * GIB), changes=[less]),
        *epoch(4, night + 50, 4, 0.35, int(7.3 * GIB)),
        *epoch(4, night + 120, 5, 0.3, int(7.3 * GIB)),
        TrainingEnded(attempt=4, time=BEGAN + night + 121, training=0, steps_done=6 * STEPS),
        ended(4, night + 125, 125, "finished", "the script ended well"),
        RunEnded(attempt=4, time=BEGAN + night + 125, status="finished", exit_code=0),
    ]


def long_run(attempts: int = 50) -> list[Event]:
    """One attempt after another, each with a different end."""
    causes = ("killed", "restart", "host memory", "device memory", "failure", "interrupted")
    events: list[Event] = []
    for number in range(1, attempts + 1):
        at, cause = 100.0 * number, causes[number % len(causes)]
        events += started(number, at, steps=10 * (number - 1))
        events.append(checkpoint(number, at + 60, 10 * number))
        events.append(ended(number, at + 90, 90, cause, "the process was killed by SIGKILL"))
        events.append(decided(number + 1, at + 90, "the same settings, from the last checkpoint", "it was killed"))
    last = attempts
    events.append(RunEnded(attempt=last, time=BEGAN + 100.0 * last + 91, status="failed", exit_code=1))
    return events
