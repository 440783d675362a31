"""What happens between two steps of a training: counting, checkpoints when it is time, and the end of the process."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Protocol

import tensorflow as tf

from lowtide.run.train.attempt_cause import RESTART_CODE
from lowtide.run.train.history import EpochEnded, StepsDone
from lowtide.tf.memory_meter import MemoryMeter
from lowtide.tf.record.device import peak_bytes_in_use
from lowtide.tf.train.memory_guard import MemoryGuard
from lowtide.tf.train.random_note import RandomNote
from lowtide.tf.train.session import RunSession

_MIB = 1 << 20
# An epoch that takes longer is told of before it ends.
_SECONDS_BETWEEN_LINES = 60.0


class Save(Protocol):
    """Writes a checkpoint of a training."""

    def __call__(self, reason: str, *, in_background: bool = False) -> None: ...


class StepMonitor:
    """Follows the steps of one training; `save` writes a checkpoint of the training.

    `steps` is the number of steps of an epoch; None if it is unknown.
    """

    def __init__(self, session: RunSession, training: int, epochs: int | None, steps: int | None, save: Save) -> None:
        self.session = session
        self.training = training
        self.epochs = epochs
        self.steps = steps
        self._save = save
        self._meter = MemoryMeter()
        self._guard = MemoryGuard()
        self._random_note = RandomNote(session.note)
        self._durations: list[float] = []
        self.step_began: float | None = None
        """The time at which the running step began; None between two steps."""
        self._told = time.monotonic()
        self._scalars: Any = None

    def begin_step(self) -> None:
        """Note the time."""
        self.step_began = time.perf_counter()

    def end_step(self, steps: int, epoch: int, step: int, logs: Any) -> None:
        """Count steps that are done, `step` of them in the epoch, and save, or end the process, if it is time."""
        session = self.session
        session.steps_done += steps
        session.writer.check()
        if self.step_began is not None:
            self._durations.append(time.perf_counter() - self.step_began)
            self.step_began = None
        problem = self._guard.after_step()
        self._leave_if_stopped()
        if problem is not None:
            self._restart(problem)
        reason = session.reason_to_save()
        if reason is not None:
            self._save(reason, in_background=True)
        if time.monotonic() - self._told >= _SECONDS_BETWEEN_LINES:
            self._tell(epoch, step, numbers(logs))

    def end_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """Report an epoch that is done, and save unless it was the last one."""
        session = self.session
        ended = EpochEnded(
            attempt=session.attempt, training=self.training, epoch=epoch, epochs=self.epochs,
            steps_done=session.steps_done, logs=logs,
            step_seconds=self._step_seconds(),
            device_bytes=peak_bytes_in_use() or None, resident_bytes=self._meter.read().process_bytes,
        )  # fmt: skip
        session.add(ended)
        self._write_scalars(ended)
        self._durations, self._told = [], time.monotonic()
        self._leave_if_stopped()
        if session.is_worth_saving() and epoch + 1 != self.epochs:
            self._save("end of an epoch", in_background=True)

    def stop(self) -> None:
        """End what runs beside the training."""
        session = self.session
        try:
            session.writer.wait()
        except Exception as error:
            # The training ends with an error of its own, or the script has left its loop. The history may not grow.
            with contextlib.suppress(OSError):
                session.note(f"the checkpoint of step {session.writer.failed_steps:,} was not written: {error}")
        self._guard.stop()
        self._random_note.stop()

    def _tell(self, epoch: int, step: int, logs: dict[str, float]) -> None:
        """Report a part of an epoch."""
        self._told = time.monotonic()
        self.session.add(
            StepsDone(
                attempt=self.session.attempt, training=self.training, epoch=epoch, epochs=self.epochs, step=step,
                steps=self.steps, steps_done=self.session.steps_done, logs=logs, step_seconds=self._step_seconds(),
                device_bytes=peak_bytes_in_use() or None,
            )
        )  # fmt: skip

    def _step_seconds(self) -> float | None:
        """Return the median time of a step of this epoch."""
        durations = sorted(self._durations)
        return durations[len(durations) // 2] if durations else None

    def _write_scalars(self, ended: EpochEnded) -> None:
        """Write the epoch's figures for TensorBoard."""
        if self._scalars is None:
            self._scalars = tf.summary.create_file_writer(str(self.session.directory.scalars))
        figures = {
            **ended.logs,
            "memory/device, MiB": ended.device_bytes and ended.device_bytes / _MIB,
            "memory/host, MiB": ended.resident_bytes and ended.resident_bytes / _MIB,
            "seconds of a step": ended.step_seconds,
        }
        with self._scalars.as_default(step=ended.steps_done):
            for name, value in figures.items():
                if value is not None:
                    tf.summary.scalar(name, value)
        self._scalars.flush()

    def _leave_if_stopped(self) -> None:
        if self.session.stop_signal is not None:
            self._save("before the process ends")
            self.session.leave()

    def _restart(self, problem: str) -> None:
        """Save before memory runs out, and end the process if a supervisor starts it again."""
        self.session.note(problem)
        self._save("before memory runs out")
        if self.session.is_supervised:
            raise SystemExit(RESTART_CODE)


def numbers(logs: Any) -> dict[str, float]:
    """Return the logs that are single numbers."""
    found = {}
    for name, value in (logs or {}).items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError):
            continue
    return found
