"""Ends a process whose step goes on long after the allocator has refused one of its requests."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from lowtide.run.dump_filter import REFUSAL
from lowtide.run.train.history import Failed
from lowtide.tf.train.session import RunSession

# A request is tried for ten seconds before it is refused, and so are those that wait at the same time. In a loop new
# ones follow, each for another ten seconds, although the step has failed.
_PATIENCE_SECONDS = 15
_POLL_SECONDS = 1.0


class RefusalWatch:
    """Reads the attempt's log while a training runs.

    `step_began` returns the time at which the running step began, None between two steps. If the same step is still
    running 15 seconds after a request was refused, the process ends as it would with the exception of the step.
    """

    def __init__(self, session: RunSession, step_began: Callable[[], float | None]) -> None:
        self._session = session
        self._step_began = step_began
        self._log = session.directory.attempt_folder(session.attempt) / "log"
        self._read_bytes = _size(self._log)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lowtide refused requests", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            began = self._step_began()
            if not self._has_refusal() or began is None:
                continue
            if self._stopped.wait(_PATIENCE_SECONDS):
                return
            if self._step_began() == began:
                self._end_process()

    def _has_refusal(self) -> bool:
        """Whether the log has a refusal since the last call."""
        if _size(self._log) == self._read_bytes:
            return False
        with self._log.open("rb") as file:
            file.seek(self._read_bytes)
            lines = file.read()
        lines = lines[: lines.rfind(b"\n") + 1]
        self._read_bytes += len(lines)
        return REFUSAL.search(lines) is not None

    def _end_process(self) -> None:
        session = self._session
        failed = Failed(
            attempt=session.attempt,
            error="ResourceExhaustedError",
            message=f"the step was still running {_PATIENCE_SECONDS} seconds after the allocator had refused a request",
            is_memory=True,
            steps_done=session.steps_done,
        )
        session.add(failed)
        # Python waits for the step.
        os._exit(1)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
