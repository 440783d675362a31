"""What lies below the paths that were given: files with numbers that stay, and what each of them holds."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.sources.graphs.find_graphs import Span, find_files
from lowtide.view.server.background import Background, Message

Stamp = tuple[int, int]
"""The size of a file and the time of its last change: what tells whether it has to be read again."""

# Folders are looked through again after a second, and after ten times as long as it took.
_SECONDS_BETWEEN_SCANS, _SHARE_OF_SCANS = 1.0, 10
# So many of the given paths are named in the title.
_TITLED = 3


@dataclass(frozen=True)
class Problem:
    """Why something cannot be shown, and what to do."""

    error: str
    cure: str


@dataclass(frozen=True)
class Contents:
    """What a file holds."""

    kind: str
    spans: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    """What the list of files says of a tide or a plan."""


@dataclass(frozen=True)
class Root:
    """A file or folder that was given, and what the names of all files below it begin with."""

    path: Path
    shown: str

    def shows(self, path: Path) -> str:
        """What a file below is called."""
        relative = "" if path == self.path else path.relative_to(self.path).as_posix()
        return "/".join(filter(None, (self.shown, relative)))


@dataclass
class File:
    """A file below the paths that were given."""

    number: int
    path: Path
    root: Root
    stamp: Stamp
    contents: Contents | None = None
    problem: Problem | None = None
    looked_at: Stamp | None = None
    """What the file was when it was last looked at."""
    is_looked_at_now: bool = False

    @property
    def shown(self) -> str:
        """What the file is called."""
        return self.root.shows(self.path)

    @property
    def run(self) -> str:
        """The folder of the file, as TensorBoard calls it."""
        return self.shown.rpartition("/")[0]

    @property
    def is_known(self) -> bool:
        """Whether the file was looked at once, with whatever outcome."""
        return self.contents is not None or self.problem is not None

    @property
    def is_inside(self) -> bool:
        """Whether the file lies where it was found, and no link has come to lead out of there."""
        try:
            return self.path.is_file() and self.path.resolve().is_relative_to(self.root.path.resolve())
        except (OSError, RuntimeError):
            return False


class Library:
    """The files below some paths; new ones appear, and those that changed are looked at again."""

    def __init__(self, title: str, roots: Sequence[Root], background: Background) -> None:
        self.title = title
        self._roots = roots
        self._background = background
        self._changed = threading.Condition()
        self._scanning = threading.Lock()
        self._numbers: dict[Path, int] = {}
        self._files: dict[int, File] = {}
        self._next_scan = 0.0

    def files(self) -> list[File]:
        """All files there are now, in the order a person would sort them."""
        # Who comes while folders are looked through gets the list as it was; before the first one he waits.
        if time.monotonic() >= self._next_scan and self._scanning.acquire(blocking=not self._next_scan):
            try:
                if time.monotonic() >= self._next_scan:
                    self._scan()
            finally:
                self._scanning.release()
        with self._changed:
            return list(self._files.values())

    def file(self, number: int) -> File | None:
        """A file by its number, as it is now; None if there is none."""
        if not self._next_scan:
            self.files()
        with self._changed:
            file = self._files.get(number)
            stamp = None if file is None or not file.is_inside else _stamp(file.path)
            if file is None or stamp is None:
                return None
            file.stamp = stamp
            return file

    def look(self, files: Sequence[File]) -> None:
        """Have files looked at that are new or have changed."""
        with self._changed:
            for file in files:
                if file.looked_at != file.stamp and not file.is_looked_at_now and file.is_inside:
                    file.is_looked_at_now = True
                    self._background.look(file.path, _Looking(self, file, file.stamp).hear)

    def look_now(self, file: File, seconds: float) -> None:
        """Have a file looked at before all others if nobody knows it yet, and wait so long for that."""
        self.look([file])
        if not file.is_known:
            self._background.hurry(file.path)
            self.wait([file], seconds)

    def wait(self, files: Sequence[File], seconds: float) -> None:
        """Wait until all of these files are known, or for so long."""
        with self._changed:
            self._changed.wait_for(lambda: all(file.is_known for file in files), seconds)

    def keep(self, file: File, stamp: Stamp, contents: Contents | None, problem: Problem | None) -> None:
        """Note what was found in a file."""
        with self._changed:
            file.looked_at, file.is_looked_at_now, file.problem = stamp, False, problem
            # What was found before in a file that is just being written again is more than nothing.
            file.contents = contents or file.contents
            self._changed.notify_all()

    def _scan(self) -> None:
        began = time.monotonic()
        found = [(path, root, _stamp(path)) for root in self._roots for path in find_files(root.path)]
        with self._changed:
            files: dict[int, File] = {}
            for path, root, stamp in found:
                number = self._numbers.setdefault(path, len(self._numbers))
                if stamp is not None and number not in files:
                    file = files[number] = self._files.get(number) or File(number, path, root, stamp)
                    file.stamp = stamp
            self._files = files
        now = time.monotonic()
        self._next_scan = now + max(_SECONDS_BETWEEN_SCANS, _SHARE_OF_SCANS * (now - began))


@dataclass(frozen=True)
class _Looking:
    """Somebody who waits for what is found in a file."""

    library: Library
    file: File
    stamp: Stamp

    def hear(self, message: Message) -> None:
        if "done" in message:
            self.library.keep(self.file, self.stamp, _contents(message["done"]), None)
        elif "error" in message:
            self.library.keep(self.file, self.stamp, None, Problem(message["error"], message["cure"]))


def _contents(found: dict[str, Any]) -> Contents:
    spans = (Span(Path(path), start, end, label, tuple(notes)) for path, start, end, label, notes in found["spans"])
    return Contents(found["kind"], tuple(spans), tuple(found["notes"]), found["facts"])


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        # Gone since it was found.
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def open_library(given: Sequence[str], background: Background) -> Library:
    """The library of what a person typed; a path that is not there is an error."""
    for text in given:
        path = Path(text)
        if not path.exists():
            raise LowtideError("there is no such file or folder", given=text, cure="give one that exists")
        if not path.is_file() and not path.is_dir():
            raise LowtideError("neither a file nor a folder", given=text, cure="give one of them")
    return Library(_title(given), _roots(given), background)


def _roots(given: Sequence[str]) -> list[Root]:
    paths = [Path(os.path.abspath(text)) for text in given]
    if len(paths) == 1:
        return [Root(paths[0], "" if paths[0].is_dir() else paths[0].name)]
    return [Root(path, Path(text).as_posix()) for path, text in zip(paths, given, strict=True)]


def _title(given: Sequence[str]) -> str:
    more = len(given) - _TITLED
    return ", ".join(given[:_TITLED]) + (f" and {more} more" if more > 0 else "")
