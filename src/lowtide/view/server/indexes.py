"""The indexes of graphs: opened on the first request, and built in the background where none exists."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lowtide.atlas.atlas import Atlas, Source
from lowtide.atlas.index_cache import find_atlas, read_atlas
from lowtide.progress import Progress
from lowtide.sources.graphs.find_graphs import Span
from lowtide.view.server.background import Background, Message
from lowtide.view.server.graph_summary import summarize
from lowtide.view.server.library import File, FileProblem, Stamp

Version = tuple[Span, Stamp | None]
"""What an index was built from; when it differs, the index is out of date."""

IndexCallback = Callable[[str, Progress | None], None]
"""Called with the label of a graph and the progress of its index; None when it is finished."""

# An open index holds file descriptors and maps; opening one again takes milliseconds.
_MOST_OPEN = 16
# How much of the mapped columns stays in memory between two requests.
_MOST_MAPPED_BYTES = 128 << 20


@dataclass(frozen=True)
class OpenIndex:
    """An index that can answer queries."""

    atlas: Atlas
    version: Version
    peak_bytes: int | None = None
    """The peak memory of building it, if known."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary of the graph."""
        return summarize(self.atlas)


@dataclass
class Index:
    """The index of one graph: open, being built, failed, or several of these while its file changes."""

    label: str
    opened: OpenIndex | None = None
    progress: Progress | None = None
    failed: tuple[Version | None, FileProblem] | None = None
    """The version that could not be built, and why; a version of None may be tried again."""

    @property
    def problem(self) -> FileProblem | None:
        """Why the index could not be built."""
        return None if self.failed is None else self.failed[1]

    @property
    def state(self) -> str:
        """The state in one word."""
        if self.opened is not None:
            return "ready"
        if self.progress is not None:
            return "building" if self.progress.share is not None else "waiting"
        return "waiting" if self.failed is None else "failed"

    def needs(self, version: Version, *, is_file_changing: bool) -> bool:
        """Whether it has to be opened or built: not while it is being built, nor again after a failure."""
        if self.progress is not None or (self.failed is not None and self.failed[0] == version):
            return False
        if self.opened is None:
            return True
        # The open index is good enough until the new contents of the file are known.
        return self.opened.version != version and not is_file_changing

    def receive(self, message: Message, source: Source, version: Version) -> None:
        """Update the state from a message of the worker process."""
        if "done" in message:
            built = message["done"]
            self.progress, self.failed = None, None
            try:
                self.opened = OpenIndex(read_atlas(Path(built["folder"]), source), version, built["peak_bytes"])
            except (OSError, ValueError):
                # The cache was emptied: the index is built again on the next request.
                self.opened = None
        elif "error" in message:
            self.progress = None
            self.failed = None if "retry" in message else version, FileProblem(message["error"], message["cure"])
        else:
            self.progress = Progress(**message["progress"])


class Indexes:
    """The indexes of all graphs that were requested."""

    def __init__(self, background: Background, report: IndexCallback | None = None) -> None:
        self._background = background
        self._report = report or (lambda label, progress: None)
        self._lock = threading.Lock()
        self._indexes: dict[tuple[int, int], Index] = {}
        self._open: OrderedDict[tuple[int, int], None] = OrderedDict()

    def state(self, file: File, number: int) -> str:
        """Return the state of a graph without opening it."""
        with self._lock:
            index = self._indexes.get((file.number, number))
            return "waiting" if index is None else index.state

    def ask(self, file: File, number: int, span: Span) -> Index:
        """Return the index of a graph; if none is up to date, start building one."""
        key, source = (file.number, number), _source(file, span)
        version = (span, None if source.is_settled else file.inspected_stamp)
        with self._lock:
            index = self._indexes.setdefault(key, Index(f"{file.display_name} · {span.label}"))
            if index.needs(version, is_file_changing=file.inspected_stamp != file.stamp):
                atlas = find_atlas(source)
                if atlas is None:
                    self._build(index, source, version)
                else:
                    index.opened, index.failed = OpenIndex(atlas, version), None
            if index.opened is not None:
                self._remember(key)
            # A copy: the background thread may change the index at any time.
            return replace(index)

    def forget(self, file: File, number: int) -> None:
        """Open an index again on the next request: another process has replaced its files."""
        with self._lock:
            index = self._indexes.get((file.number, number))
            if index is not None:
                index.opened = None

    def release_memory(self) -> None:
        """Release the memory of mapped columns once they take much; the system would keep it."""
        if mapped_bytes() < _MOST_MAPPED_BYTES:
            return
        with self._lock:
            opened = [index.opened for index in self._indexes.values() if index.opened is not None]
        for each in opened:
            each.atlas.release()

    def _remember(self, key: tuple[int, int]) -> None:
        self._open[key] = None
        self._open.move_to_end(key)
        if len(self._open) > _MOST_OPEN:
            oldest, _ = self._open.popitem(last=False)
            self._indexes[oldest].opened = None

    def _build(self, index: Index, source: Source, version: Version) -> None:
        index.progress = Progress("waiting")

        def receive(message: Message) -> None:
            with self._lock:
                index.receive(message, source, version)
                progress = index.progress
            self._report(index.label, progress)

        given = [str(source.path), source.start, source.end, source.label, source.is_settled]
        self._background.build(given, receive)


def mapped_bytes() -> int:
    """Return how many bytes of mapped files are in memory; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[2]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _source(file: File, span: Span) -> Source:
    # Event files are only ever appended to.
    is_settled = file.contents is not None and file.contents.kind == "events" and span.end <= file.stamp[0]
    return Source(span.path, span.start, span.end, span.label, is_settled)
