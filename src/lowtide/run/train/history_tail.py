"""The history of a run as it grows: new events go to the log in words, and to the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from lowtide.run.train.history import Event
from lowtide.run.train.narrator import Narrator
from lowtide.run.train.run_directory import RunDirectory

_PAUSE_SECONDS = 0.2


class HistoryTail:
    """The history of a run, read as it grows: both by this process and by the script's."""

    def __init__(self, directory: RunDirectory, on_event: Callable[[Event], None]) -> None:
        self.history = directory.history
        self.events, self._offset = self.history.read_from(0)
        self._log = directory.log
        self._narrator = Narrator(directory.folder)
        self._on_event = on_event
        self._lock = threading.Lock()
        for event in self.events:
            self._narrator.lines(event)

    def add(self, event: Event) -> None:
        """Add an event to the history, and pass on all that are new."""
        try:
            self.history.append(event)
        except OSError:
            # The disk is full; the run goes on without a record.
            with self._lock:
                self._pass_on(event)
        self.read()

    def read(self) -> None:
        """Pass on all new events."""
        with self._lock:
            found, self._offset = self.history.read_from(self._offset)
            for event in found:
                self._pass_on(event)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Pass on events as they are added by another process."""
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(_PAUSE_SECONDS):
                self.read()

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        try:
            yield
        finally:
            ended.set()
            follower.join()
            self.read()

    def _pass_on(self, event: Event) -> None:
        self.events.append(event)
        when = datetime.fromtimestamp(event.time).strftime("%Y-%m-%d %H:%M:%S")
        with suppress(OSError), self._log.open("a", encoding="utf-8") as log:
            for line in self._narrator.lines(event):
                log.write(f"{when}  {line}\n")
        self._on_event(event)
