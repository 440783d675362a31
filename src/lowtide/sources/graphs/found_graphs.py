"""The graphs found in a file: the byte range, the label and the damage of each GraphDef."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

CUT = "the file ends in the middle of it"

BEFORE, AFTER, PARTITION = "before", "after", "partition"
"""The stages of a function's graph: before and after optimization, and the part that one device executes."""

# More than a person can look at, and a bound for files that claim any number of graphs.
_MOST_SPANS = 10_000
_MOST_NOTES = 50


class FunctionGraph(NamedTuple):
    """Which function of a traced run a graph is, and when it was taken."""

    position: int
    """The position of the function in the run, from 1."""
    name: str | None
    """A readable name; None if nothing in the function suggests one."""
    stage: str
    """before or after optimization, or partition"""
    device: str | None = None
    """The device of a partition."""


@dataclass(frozen=True)
class GraphRange:
    """The bytes `start` to `end` of the data that a reader walks, which are a serialized GraphDef."""

    start: int
    end: int
    """The expected end: past the end of a file that is cut or still being written."""
    label: str
    notes: tuple[str, ...] = ()
    """What is wrong with it."""
    function: FunctionGraph | None = None
    """The function of a traced run that it is; graphs of the same function are versions of each other."""
    tag: str | None = None
    """The name under which a traced run was written."""
    import_obstacle: str | None = None
    """Why TensorFlow cannot import it."""


@dataclass(frozen=True)
class Span(GraphRange):
    """The range of a GraphDef in a file."""

    path: Path = field(kw_only=True)


@dataclass(frozen=True)
class FoundGraphs:
    """The kind of a file, its graphs, and what is wrong with it."""

    kind: str
    spans: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class GraphCollector:
    """Collects the graphs and notes of one file, within fixed bounds."""

    path: Path
    file_bytes: int
    spans: list[Span] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _labels: dict[str, int] = field(default_factory=dict)

    def add(self, place: GraphRange, notes: Iterable[str] = ()) -> None:
        """Add a graph of the file itself."""
        cut = (CUT,) if place.end > self.file_bytes else ()
        self.add_span(Span(**vars(replace(place, notes=(*place.notes, *notes, *cut))), path=self.path))

    def add_span(self, span: Span) -> None:
        """Add a graph of any file, with a distinct label."""
        if len(self.spans) == _MOST_SPANS:
            self.note(f"the file has more than {_MOST_SPANS:,} graphs; the others are left out")
        else:
            self.spans.append(replace(span, label=self._distinct(span.label)))

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def found(self, kind: str) -> FoundGraphs:
        """Return what was collected."""
        return FoundGraphs(kind, tuple(self.spans), tuple(self.notes))

    def _distinct(self, label: str) -> str:
        count = self._labels[label] = self._labels.get(label, 0) + 1
        return label if count == 1 else f"{label} ({count})"
