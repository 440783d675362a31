"""The indexes of graphs: opened when they are asked for, and built in the background where there is none."""

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
from lowtide.view.server.library import File, Problem, Stamp

Version = tuple[Span, Stamp | None]
"""What an index was built from: it is out of date when this is another."""

Tell = Callable[[str, Progress | None], None]
"""Hears what is being built and how far it is; None when that is over."""

# Each that is open holds files and maps; another one is opened again in milliseconds.
_MOST_OPEN = 16
# Of columns so much stays in memory between one answer and the next.
_MOST_MAPPED_BYTES = 128 << 20


@dataclass(frozen=True)
class Opened:
    """An index that can be asked."""

    atlas: Atlas
    version: Version
    peak_bytes: int | None = None
    """What building it took, where that is known."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What the graph is made of."""
        return summarize(self.atlas)


@dataclass
class Index:
    """The index of one graph: open, being built, failed, or several of these while its file changes."""

    label: str
    opened: Opened | None = None
    progress: Progress | None = None
    failed: tuple[Version | None, Problem] | None = None
    """Of which version there is none, and why; of None if it may be tried again."""

    @property
    def problem(self) -> Problem | None:
        """Why there is none."""
        return None if self.failed is None else self.failed[1]

    @property
    def state(self) -> str:
        """One word of it."""
        if self.opened is not None:
            return "ready"
        if self.progress is not None:
            return "building" if self.progress.share is not None else "waiting"
        return "waiting" if self.failed is None else "failed"

    def needs(self, version: Version, *, is_file_changing: bool) -> bool:
        """Whether it has to be opened or built: not while it is, nor again where that failed."""
        if self.progress is not None or (self.failed is not None and self.failed[0] == version):
            return False
        if self.opened is None:
            return True
        # What is open will do until it is known what the file has become.
        return self.opened.version != version and not is_file_changing

    def hear(self, message: Message, source: Source, version: Version) -> None:
        """Note what the process that builds it says."""
        if "done" in message:
            built = message["done"]
            self.progress, self.failed = None, None
            try:
                self.opened = Opened(read_atlas(Path(built["folder"]), source), version, built["peak_bytes"])
            except (OSError, ValueError):
                # Somebody has emptied the cache: it is built again when it is asked for next.
                self.opened = None
        elif "error" in message:
            self.progress = None
            self.failed = None if "may_help" in message else version, Problem(message["error"], message["cure"])
        else:
            self.progress = Progress(**message["progress"])


class Indexes:
    """The index of every graph that was asked for."""

    def __init__(self, background: Background, tell: Tell | None = None) -> None:
        self._background = background
        self._tell = tell or (lambda label, progress: None)
        self._lock = threading.Lock()
        self._indexes: dict[tuple[int, int], Index] = {}
        self._open: OrderedDict[tuple[int, int], None] = OrderedDict()

    def state(self, file: File, number: int) -> str:
        """The state of a graph, without asking for it."""
        with self._lock:
            index = self._indexes.get((file.number, number))
            return "waiting" if index is None else index.state

    def ask(self, file: File, number: int, span: Span) -> Index:
        """The index of a graph; where there is none for the file as it is, it is being built from now on."""
        key, source = (file.number, number), _source(file, span)
        version = (span, None if source.is_settled else file.looked_at)
        with self._lock:
            index = self._indexes.setdefault(key, Index(f"{file.shown} · {span.label}"))
            if index.needs(version, is_file_changing=file.looked_at != file.stamp):
                atlas = find_atlas(source)
                if atlas is None:
                    self._build(index, source, version)
                else:
                    index.opened, index.failed = Opened(atlas, version), None
            if index.opened is not None:
                self._remember(key)
            # As it is now: the thread that builds may change it at any time.
            return replace(index)

    def forget(self, file: File, number: int) -> None:
        """Open an index again when it is asked for next: another process has replaced its files."""
        with self._lock:
            index = self._indexes.get((file.number, number))
            if index is not None:
                index.opened = None

    def release_memory(self) -> None:
        """Give back the memory of columns once they take much: what is mapped stays until somebody says so."""
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

        def hear(message: Message) -> None:
            with self._lock:
                index.hear(message, source, version)
                progress = index.progress
            self._tell(index.label, progress)

        given = [str(source.path), source.start, source.end, source.label, source.is_settled]
        self._background.build(given, hear)


def mapped_bytes() -> int:
    """What this process holds of files that it has mapped; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[2]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _source(file: File, span: Span) -> Source:
    # Event files are only ever appended to.
    is_settled = file.contents is not None and file.contents.kind == "events" and span.end <= file.stamp[0]
    return Source(span.path, span.start, span.end, span.label, is_settled)
