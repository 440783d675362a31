"""A progress bar on standard error, which is removed when the work is done."""

from __future__ import annotations

import time
from typing import Any

# Shorter work shows no bar.
_DELAY_S = 1.0


class ProgressBar:
    """A progress bar that appears once the work has taken longer than a delay."""

    def __init__(
        self, stage: str, total: int | None, done: int = 0, *, in_bytes: bool = False, delay_s: float = _DELAY_S
    ) -> None:
        self._stage, self._total, self._done = stage, total, done
        self._in_bytes, self._delay_s = in_bytes, delay_s
        self._started = time.monotonic()
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, by: int = 1) -> None:
        """Add to the amount that is done."""
        self._done += by
        if self._progress is None and time.monotonic() - self._started >= self._delay_s:
            self._show()
        if self._progress is not None:
            self._progress.update(self._task, completed=self._done)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        console = Console(stderr=True)
        count = DownloadColumn(binary_units=True) if self._in_bytes else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), count, Remaining())
        is_seen = console.is_terminal or console.is_jupyter
        self._progress = Progress(*columns, console=console, transient=True, disable=not is_seen)
        self._task = self._progress.add_task(self._stage, total=self._total, completed=self._done)
        self._progress.start()
