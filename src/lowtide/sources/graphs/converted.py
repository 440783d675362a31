"""A cache of graphs converted to GraphDefs, each valid until its source file changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from lowtide.cache.fingerprint import fingerprint
from lowtide.cache.folder import remove_entry
from lowtide.errors import LowtideError
from lowtide.sources.graphs.files import CACHE_MARK
from lowtide.sources.graphs.found_graphs import FoundGraphs, GraphCollector, Span

# Increased when the conversion of the same file changes.
_FORMAT = 4
_MARK = "Signature: 8a477f597d28d172789f06886806bc55\n# Graphs that lowtide converted; they can be deleted.\n"

Write = Callable[[IO[bytes], GraphCollector], None]


def convert(source: Path, part: str, cache: Path, kind: str, write: Write) -> FoundGraphs:
    """Return the graphs that `write` makes of a part of a file, from the cache if they are there."""
    status = source.stat()
    source_key = _digest(os.path.realpath(source), part)
    target = cache / f"{source_key}-{_digest(_FORMAT, status.st_size, status.st_mtime_ns)}.graph"
    return _reuse(target, kind) or _make(target, source_key, kind, write)


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogateescape")).hexdigest()[:20]


def _reuse(target: Path, kind: str) -> FoundGraphs | None:
    try:
        index = json.loads(_index_path(target).read_text("utf-8"))
        if fingerprint(target) != index["fingerprint"]:
            return None
        spans = (
            Span(start, end, label, tuple(notes), import_obstacle=obstacle, path=target)
            for start, end, label, notes, obstacle in index["spans"]
        )
        return FoundGraphs(kind, tuple(spans), tuple(index["notes"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _make(target: Path, source_key: str, kind: str, write: Write) -> FoundGraphs:
    findings = GraphCollector(target, 1 << 62)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(IsADirectoryError):
            (target.parent / CACHE_MARK).write_text(_MARK, "utf-8")
        with NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as file:
            try:
                write(file, findings)
                file.close()
                # Without a graph no file is kept.
                if findings.spans:
                    _keep(Path(file.name), target, findings)
                    _delete_outdated(target, source_key)
            finally:
                Path(file.name).unlink(missing_ok=True)
    except OSError as error:
        cure = "free space there, or set LOWTIDE_CACHE to another folder"
        raise LowtideError(
            f"cannot write a converted graph: {error.strerror}", given=target.parent, cure=cure
        ) from error
    return findings.found(kind)


def _keep(written: Path, target: Path, findings: GraphCollector) -> None:
    spans = [(span.start, span.end, span.label, span.notes, span.import_obstacle) for span in findings.spans]
    index = json.dumps({"fingerprint": fingerprint(written), "spans": spans, "notes": findings.notes})
    for damaged in (target, _index_path(target)):
        if damaged.is_dir():
            remove_entry(damaged)
    written.replace(target)
    _index_path(target).write_text(index, "utf-8")


def _delete_outdated(target: Path, source_key: str) -> None:
    """Delete conversions of earlier versions of the same file."""
    for old in target.parent.glob(f"{source_key}-*"):
        if old.stem != target.stem:
            remove_entry(old)


def _index_path(target: Path) -> Path:
    return target.with_suffix(".json")
