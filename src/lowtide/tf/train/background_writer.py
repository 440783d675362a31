"""Writes checkpoints in a thread, one after another, and keeps what went wrong for the thread that trains."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class BackgroundWriter:
    """A thread for what is left of a checkpoint when the training goes on.

    The thread is not a daemon: the process ends after it.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        """How long the last write took."""
        self.failure: BaseException | None = None
        """The last error of a write,"""
        self.failed_steps = 0
        """and the number of steps after which that checkpoint was due."""
        self._is_raised = False
        self._thread: threading.Thread | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is not complete yet."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, write: Callable[[], object], steps_done: int) -> None:
        """Write the checkpoint that is due after `steps_done` steps; the one before it must be complete."""

        def run() -> None:
            started = time.monotonic()
            try:
                write()
            except BaseException as error:
                self.failure, self.failed_steps, self._is_raised = error, steps_done, False
            self.seconds = time.monotonic() - started

        self._thread = threading.Thread(target=run, name="lowtide checkpoint")
        self._thread.start()

    def check(self) -> None:
        """Raise the error of a write that has failed, once."""
        if not self.is_writing and self.failure is not None and not self._is_raised:
            self._is_raised = True
            raise self.failure

    def wait(self) -> None:
        """Wait until the checkpoint is complete; raise an error if it failed."""
        self.join()
        self.check()

    def join(self) -> None:
        """Wait until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
