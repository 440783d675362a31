"""SavedModels and MetaGraphDefs: the graphs in them, with the tags they are loaded by and their signatures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from lowtide.sources.graphs.found import Findings, Found, Place
from lowtide.sources.protobuf.wire import BYTES, OPEN_END, Buffer, WireError, read_text, walk, walk_inside

_META_GRAPHS = 2
_INFO, _GRAPH, _SIGNATURE = 1, 2, 5
_TAGS = 4
_KEY = 1

# A model has a handful; a damaged file may have any number.
_MOST_NAMES = 50


def find_saved_model_graphs(data: Buffer, path: Path) -> Found:
    """Find the graph of each meta graph of a SavedModel."""
    findings = Findings(path, len(data))
    try:
        for bounds in walk_inside(data, 0, OPEN_END, _META_GRAPHS):
            for place in find_meta_graph(data, *bounds):
                findings.add(place)
    except WireError as error:
        findings.note(_damage(error))
    return _checked(findings).found("saved_model")


def find_meta_file_graphs(data: Buffer, path: Path) -> Found:
    """Find the graph of a file with one MetaGraphDef, as checkpoints have beside them."""
    findings = Findings(path, len(data))
    try:
        for place in find_meta_graph(data, 0, OPEN_END):
            findings.add(place)
    except WireError as error:
        findings.note(_damage(error))
    return _checked(findings).found("graph")


def find_meta_graph(data: Buffer, start: int, end: int) -> Iterator[Place]:
    """Yield the graph of a MetaGraphDef; damage is raised when what can be read was yielded."""
    graph: tuple[int, int] | None = None
    tags: list[str] = []
    signatures: list[str] = []
    damage: WireError | None = None
    try:
        for number, kind, first, last in walk(data, start, end):
            if kind != BYTES:
                continue
            if number == _GRAPH:
                graph = graph or (first, last)
            elif number == _INFO:
                tags = tags or _names(data, first, last, _TAGS)
            elif number == _SIGNATURE and len(signatures) < _MOST_NAMES:
                signatures += _names(data, first, last, _KEY)
    except WireError as error:
        damage = error
    if graph is not None:
        notes = (f"signatures: {', '.join(signatures)}",) if signatures else ()
        yield Place(*graph, ", ".join(tags) or "graph", notes)
    if damage is not None:
        raise damage


def _names(data: Buffer, start: int, end: int, number: int) -> list[str]:
    """The texts with this field number; a damaged one says nothing about the graph, which comes later."""
    names: list[str] = []
    try:
        for place in islice(walk_inside(data, start, end, number), _MOST_NAMES):
            names.append(read_text(data, *place))
    except WireError:
        pass
    return names


def _damage(error: WireError) -> str:
    return f"it is damaged: {error}"


def _checked(findings: Findings) -> Findings:
    if not findings.spans:
        findings.note("it holds no graph")
    return findings
