"""The graphs in SavedModels and MetaGraphDefs, with their tags and signatures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO

from lowtide.errors import LowtideError
from lowtide.sources.graphs.converted import convert
from lowtide.sources.graphs.found_graphs import FoundGraphs, GraphCollector, GraphRange
from lowtide.sources.graphs.signatures import write_signatures
from lowtide.sources.protobuf.wire import BYTES, OPEN_END, Buffer, WireError, read_text, walk, walk_inside

_META_GRAPHS = 2
_INFO, _GRAPH, _SIGNATURE = 1, 2, 5
_TAGS = 4
_KEY = 1

# Models have a few; a damaged file may have any number.
_MOST_NAMES = 50


def find_saved_model_graphs(data: Buffer, path: Path, cache: Path) -> FoundGraphs:
    """Find the graphs that a SavedModel serves, then the whole graph of each meta graph."""
    findings = GraphCollector(path, len(data))
    metas = []
    try:
        for bounds in walk_inside(data, 0, OPEN_END, _META_GRAPHS):
            for place in find_meta_graph(data, *bounds):
                findings.add(place)
                metas.append((bounds, place))
    except WireError as error:
        findings.note(_damage(error))

    def write(out: IO[bytes], served: GraphCollector) -> None:
        for bounds, place in metas:
            write_signatures(data, bounds, (place.start, place.end), place.label, out, served)

    served = FoundGraphs("saved_model")
    try:
        if metas:
            served = convert(path, "signatures", cache, "saved_model", write)
    except LowtideError as error:
        findings.note(f"its signatures are not shown: {error.problem}")
    found = _checked(findings).found("saved_model")
    return replace(found, spans=(*served.spans, *found.spans))


def find_meta_file_graphs(data: Buffer, path: Path) -> FoundGraphs:
    """Find the graph of a file with one MetaGraphDef, such as the .meta file of a checkpoint."""
    findings = GraphCollector(path, len(data))
    try:
        for place in find_meta_graph(data, 0, OPEN_END):
            findings.add(place)
    except WireError as error:
        findings.note(_damage(error))
    return _checked(findings).found("graph")


def find_meta_graph(data: Buffer, start: int, end: int) -> Iterator[GraphRange]:
    """Yield the graph of a MetaGraphDef; damage is raised after it."""
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
        yield GraphRange(*graph, ", ".join(tags) or "graph", notes)
    if damage is not None:
        raise damage


def _names(data: Buffer, start: int, end: int, number: int) -> list[str]:
    """Return the strings with this field number up to a damaged one, which is ignored: the graph follows."""
    names: list[str] = []
    try:
        for place in islice(walk_inside(data, start, end, number), _MOST_NAMES):
            names.append(read_text(data, *place))
    except WireError:
        pass
    return names


def _damage(error: WireError) -> str:
    return f"it is damaged: {error}"


def _checked(findings: GraphCollector) -> GraphCollector:
    if not findings.spans:
        findings.note("it holds no graph")
    return findings
