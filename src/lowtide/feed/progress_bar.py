"""A bar on the terminal for what takes long: on standard error, and gone when it is done."""

from __future__ import annotations

import time
from typing import Any

# What is over sooner than this needs no bar.
_PATIENCE_S = 1.0


class Bar:
    """How far some work is; it shows itself once the work has taken a while."""

    def __init__(
        self, what: str, total: int | None, done: int = 0, *, in_bytes: bool = False, patience_s: float = _PATIENCE_S
    ) -> None:
        self._what, self._total, self._done = what, total, done
        self._in_bytes, self._patience_s = in_bytes, patience_s
        self._begun = time.monotonic()
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, by: int = 1) -> None:
        """Say that so much more is done."""
        self._done += by
        if self._progress is None and time.monotonic() - self._begun >= self._patience_s:
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
        self._task = self._progress.add_task(self._what, total=self._total, completed=self._done)
        self._progress.start()
