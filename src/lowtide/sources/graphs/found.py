"""What a search for graphs found: where each GraphDef lies, what it is called, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

CUT = "the file ends in the middle of it"

# Far more than a person can look at, and few enough for a file that is made of nothing else.
_MOST_SPANS = 10_000
_MOST_NOTES = 50


@dataclass(frozen=True)
class Span:
    """A serialized GraphDef lies at `path[start:end]`."""

    path: Path
    start: int
    end: int
    """Where it should end: past the end of a file that is cut or still being written."""
    label: str
    notes: tuple[str, ...] = ()
    """What is wrong with it."""


@dataclass(frozen=True)
class Found:
    """What a file holds: its kind, its graphs, and what is wrong with the file."""

    kind: str
    spans: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where a reader saw a GraphDef in the bytes that it walked."""

    start: int
    end: int
    label: str
    notes: tuple[str, ...] = ()


@dataclass
class Findings:
    """Gathers what a reader finds in one file, within bounds that no file can pass."""

    path: Path
    file_bytes: int
    spans: list[Span] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _labels: dict[str, int] = field(default_factory=dict)

    def add(self, place: Place, notes: Iterable[str] = ()) -> None:
        cut = (CUT,) if place.end > self.file_bytes else ()
        self.add_span(Span(self.path, place.start, place.end, place.label, (*place.notes, *notes, *cut)))

    def add_span(self, span: Span) -> None:
        if len(self.spans) == _MOST_SPANS:
            self.note(f"it holds more than {_MOST_SPANS:,} graphs; the others are left out")
        else:
            self.spans.append(replace(span, label=self._distinct(span.label)))

    def note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def found(self, kind: str) -> Found:
        return Found(kind, tuple(self.spans), tuple(self.notes))

    def _distinct(self, label: str) -> str:
        count = self._labels[label] = self._labels.get(label, 0) + 1
        return label if count == 1 else f"{label} ({count})"
