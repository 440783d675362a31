"""Graphs that were written in another form, kept as GraphDefs in a folder until the file they come from changes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from lowtide.errors import LowtideError
from lowtide.sources.graphs.files import CACHE_MARK
from lowtide.sources.graphs.found import Findings, Found, Span

# Counts up when the same file would be written in another way.
_FORMAT = 1
_MARK = "Signature: 8a477f597d28d172789f06886806bc55\n# Graphs that lowtide converted; they can be deleted.\n"

Write = Callable[[IO[bytes], Findings], None]


def convert(source: Path, part: str, cache: Path, kind: str, write: Write) -> Found:
    """Give the graphs that `write` makes of a part of a file, made before or made now."""
    status = source.stat()
    whose = _digest(os.path.realpath(source), part)
    target = cache / f"{whose}-{_digest(_FORMAT, status.st_size, status.st_mtime_ns)}.graph"
    return _reuse(target, kind) or _make(target, whose, kind, write)


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogateescape")).hexdigest()[:20]


def _reuse(target: Path, kind: str) -> Found | None:
    try:
        told = json.loads(_index(target).read_text("utf-8"))
        if target.stat().st_size != told["bytes"]:
            return None
        spans = (Span(target, start, end, label, tuple(notes)) for start, end, label, notes in told["spans"])
        return Found(kind, tuple(spans), tuple(told["notes"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _make(target: Path, whose: str, kind: str, write: Write) -> Found:
    findings = Findings(target, 1 << 62)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        (target.parent / CACHE_MARK).write_text(_MARK, "utf-8")
        with NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as file:
            try:
                write(file, findings)
                file.close()
                # What holds no graph is not worth a file.
                if findings.spans:
                    _keep(Path(file.name), target, findings)
                    _forget_others(target, whose)
            finally:
                Path(file.name).unlink(missing_ok=True)
    except OSError as error:
        raise LowtideError(f"cannot write a converted graph: {error.strerror}", given=target.parent) from error
    return findings.found(kind)


def _keep(written: Path, target: Path, findings: Findings) -> None:
    spans = [(span.start, span.end, span.label, span.notes) for span in findings.spans]
    told = json.dumps({"bytes": written.stat().st_size, "spans": spans, "notes": findings.notes})
    written.replace(target)
    _index(target).write_text(told, "utf-8")


def _forget_others(target: Path, whose: str) -> None:
    """Delete what was made of the same file when its content was another."""
    for old in target.parent.glob(f"{whose}-*"):
        if old.stem != target.stem:
            old.unlink(missing_ok=True)


def _index(target: Path) -> Path:
    return target.with_suffix(".json")
