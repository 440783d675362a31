"""Open a graph by path: an event file, a SavedModel, a .pb, .pbtxt, .meta or .keras file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lowtide.atlas.atlas import Atlas, Source
from lowtide.atlas.index_cache import open_atlas
from lowtide.cache.folder import cache_folder
from lowtide.errors import LowtideError
from lowtide.progress import ProgressCallback
from lowtide.sources.graphs.files import MODEL_FILES
from lowtide.sources.graphs.find_graphs import FoundGraphs, Span, find_files, find_graphs

_SHOWN = 5
# Files of a folder that are read to find the one with graphs.
_MOST_READ = 20


@dataclass(frozen=True)
class OpenedGraph:
    """An opened graph, and notes about the file and the graph."""

    atlas: Atlas
    notes: tuple[str, ...]


def open_graph(path: Path, graph: str | int | None = None, on_progress: ProgressCallback | None = None) -> OpenedGraph:
    """Open the graph with the given label or number, by default the first, and index it if there is no index yet."""
    file, found = _find(path)
    spans = found.spans
    span = _choose(spans, graph, path)
    given = None if span.path == path else file
    source = Source(span.path, span.start, span.end, span.label, False, span.import_obstacle, given)
    atlas = open_atlas(source, on_progress)
    if not len(atlas):
        raise LowtideError("there is no node in this graph", given=path, cure="; ".join(atlas.notes) or None)
    notes = (*found.notes, *span.notes, *atlas.notes)
    if len(spans) > 1 and graph is None:
        notes = (*notes, f"this is graph 0 ({span.label}); others in the file: {_named(spans, 1)}")
    return OpenedGraph(atlas, notes)


def _find(path: Path) -> tuple[Path, FoundGraphs]:
    """Return the file or SavedModel at a path, and the graphs in it, of which there is at least one."""
    if not path.exists():
        raise LowtideError("there is no such file", given=path, cure="give an event file, a SavedModel or a GraphDef")
    if path.is_dir() and not any((path / name).is_file() for name in MODEL_FILES):
        path = _only_file(path)
    found = find_graphs(path, cache_folder())
    if found.spans:
        return path, found
    if found.kind in ("tide", "plan"):
        raise LowtideError(f"a {found.kind} holds no graph", given=path, cure=f"lowtide explain shows a {found.kind}")
    raise LowtideError("no graph is in this file", given=path, cure="; ".join(found.notes) or None)


def _only_file(folder: Path) -> Path:
    """Return the only file with graphs in a folder; the user must choose among several."""
    files = [each for each in find_files(folder) if each.suffix not in (".tide", ".plan")]
    if not files:
        raise LowtideError("no graph is below this folder", given=folder, cure="give a file that holds one")
    if 1 < len(files) <= _MOST_READ:
        # A run of Keras has one file with graphs, and another for validation.
        files = [each for each in files if find_graphs(each, cache_folder()).spans] or files
    if len(files) > 1:
        named = ", ".join(map(str, files[:_SHOWN])) + (", ..." if len(files) > _SHOWN else "")
        raise LowtideError(f"{len(files):,} files lie below this folder", given=folder, cure=f"give one of {named}")
    return files[0]


def _choose(spans: tuple[Span, ...], graph: str | int | None, path: Path) -> Span:
    if graph is None:
        return spans[0]
    for number, span in enumerate(spans):
        if graph in (span.label, number, str(number)):
            return span
    raise LowtideError(f"no graph of {path.name} is called so", given=graph, cure=f"give one of {_named(spans, 0)}")


def _named(spans: tuple[Span, ...], first: int) -> str:
    """Return number and label of the graphs from `first` on; of many only the largest, in the order of the file."""
    numbers = sorted(range(first, len(spans)), key=lambda number: spans[number].start - spans[number].end)
    shown = ", ".join(f"{number} ({spans[number].label})" for number in sorted(numbers[:_SHOWN]))
    return shown + (f" and {len(numbers) - _SHOWN:,} smaller" if len(numbers) > _SHOWN else "")
