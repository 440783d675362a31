"""The files below the given paths, with permanent numbers, and the contents of each."""

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
from lowtide.sources.graphs.found_graphs import FunctionGraph
from lowtide.view.server.background import Background, Message

Stamp = tuple[int, int]
"""The size of a file and the time of its last change; when they differ, the file is read again."""

# Folders are scanned again after a second, or after ten times the duration of the last scan.
_SECONDS_BETWEEN_SCANS, _SHARE_OF_SCANS = 1.0, 10
# How many of the given paths the title names.
_TITLED = 3


@dataclass(frozen=True)
class FileProblem:
    """Why something cannot be shown, and what to do."""

    error: str
    cure: str


@dataclass(frozen=True)
class Contents:
    """The contents of a file."""

    kind: str
    spans: tuple[Span, ...] = ()
    node_counts: tuple[int | None, ...] = ()
    """The number of nodes of each graph; None for graphs that take long to count."""
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    """What the list of files shows of a tide, a plan or a training run."""


@dataclass(frozen=True)
class Root:
    """A given file or folder, and the prefix of the names of all files below it."""

    path: Path
    display_name: str

    def name_of(self, path: Path) -> str:
        """Return the name of a file below the root."""
        relative = "" if path == self.path else path.relative_to(self.path).as_posix()
        return "/".join(filter(None, (self.display_name, relative)))


@dataclass
class File:
    """A file below the given paths."""

    number: int
    path: Path
    root: Root
    stamp: Stamp
    contents: Contents | None = None
    problem: FileProblem | None = None
    inspected_stamp: Stamp | None = None
    """The stamp of the file when it was last read."""
    is_being_inspected: bool = False

    @property
    def display_name(self) -> str:
        """The name of the file on the page."""
        return self.root.name_of(self.path)

    @property
    def run(self) -> str:
        """The folder of the file, as TensorBoard calls it."""
        return self.display_name.rpartition("/")[0]

    @property
    def is_known(self) -> bool:
        """Whether the file has been read, successfully or not."""
        return self.contents is not None or self.problem is not None

    @property
    def is_inside(self) -> bool:
        """Whether the file is still below its root, and not a link that leads out of it."""
        try:
            return self.path.is_file() and self.path.resolve().is_relative_to(self.root.path.resolve())
        except (OSError, RuntimeError):
            return False


class Library:
    """The files below some paths; new ones are added, and changed ones are read again."""

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
        """Return all current files in the order in which a person would sort them."""
        # A request during a scan gets the list of the last scan; only the first scan is waited for.
        if time.monotonic() >= self._next_scan and self._scanning.acquire(blocking=not self._next_scan):
            try:
                if time.monotonic() >= self._next_scan:
                    self._scan()
            finally:
                self._scanning.release()
        with self._changed:
            return list(self._files.values())

    def file(self, number: int) -> File | None:
        """Return a file by its number, with its current stamp; None if there is none."""
        if not self._next_scan:
            self.files()
        with self._changed:
            file = self._files.get(number)
            stamp = None if file is None or not file.is_inside else _stamp(file.path)
            if file is None or stamp is None:
                return None
            file.stamp = stamp
            return file

    def inspect(self, files: Sequence[File]) -> None:
        """Queue the files that are new or have changed."""
        with self._changed:
            for file in files:
                if file.inspected_stamp != file.stamp and not file.is_being_inspected and file.is_inside:
                    file.is_being_inspected = True
                    self._background.inspect(file.path, _Inspection(self, file, file.stamp).receive)

    def inspect_now(self, file: File, seconds: float) -> None:
        """Have a file that is not known yet read before all others, and wait at most `seconds`."""
        self.inspect([file])
        if not file.is_known:
            self._background.prioritize(file.path)
            self.wait([file], seconds)

    def wait(self, files: Sequence[File], seconds: float) -> None:
        """Wait until all of these files are known, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: all(file.is_known for file in files), seconds)

    def keep(self, file: File, stamp: Stamp, contents: Contents | None, problem: FileProblem | None) -> None:
        """Store the result of reading a file."""
        with self._changed:
            file.inspected_stamp, file.is_being_inspected, file.problem = stamp, False, problem
            # While a file is being rewritten, its earlier contents are better than none.
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
class _Inspection:
    """Receives the result of reading a file."""

    library: Library
    file: File
    stamp: Stamp

    def receive(self, message: Message) -> None:
        if "done" in message:
            self.library.keep(self.file, self.stamp, _contents(message["done"]), None)
        elif "error" in message:
            self.library.keep(self.file, self.stamp, None, FileProblem(message["error"], message["cure"]))


def _contents(found: dict[str, Any]) -> Contents:
    spans = tuple(_span(**span) for span in found["spans"])
    return Contents(found["kind"], spans, tuple(found["node_counts"]), tuple(found["notes"]), found["facts"])


def _span(path: str, notes: list[str], function: list[Any] | None, **rest: Any) -> Span:
    function_graph = None if function is None else FunctionGraph(*function)
    return Span(path=Path(path), notes=tuple(notes), function=function_graph, **rest)


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        # Removed since it was found.
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def open_library(given: Sequence[str], background: Background) -> Library:
    """Return the library of the given paths; a path that does not exist is an error."""
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
    # "." and ".." name no folder.
    names = [
        text if Path(text).name not in ("", "..") else Path(text).resolve().name or text for text in given[:_TITLED]
    ]
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
