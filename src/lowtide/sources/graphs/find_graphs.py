"""Finds every graph of a file, without TensorFlow and without copying it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from lowtide.errors import LowtideError
from lowtide.sources.graphs.event_files import find_event_graphs, is_event_file
from lowtide.sources.graphs.files import MODEL_FILES, find_files, is_run_history
from lowtide.sources.graphs.found_graphs import FoundGraphs, Span
from lowtide.sources.graphs.keras_graph import CONFIG, find_keras_graph
from lowtide.sources.graphs.mapped_file import map_file
from lowtide.sources.graphs.recognize import GRAPH, META_GRAPH, SAVED_MODEL, recognize
from lowtide.sources.graphs.saved_model import find_meta_file_graphs, find_saved_model_graphs
from lowtide.sources.graphs.text_graph import find_text_graphs, first_field
from lowtide.sources.protobuf.wire import Buffer

__all__ = ["FoundGraphs", "Span", "find_files", "find_graphs"]

_ZIP = b"PK\x03\x04"
# lowtide's own files, identified by the name of their header.
_OWN = {".tide": "tide.json", ".plan": "plan.json"}
RUN = "run"
"""The kind of the history of a training run."""


def find_graphs(path: Path, cache: Path) -> FoundGraphs:
    """Find the graphs of a file or of a SavedModel's folder; converted graphs are kept in `cache`.

    Notes describe damage. A file of unknown content is an error.
    """
    file = _model_file(path) if path.is_dir() else path
    with map_file(file) as data:
        found = _find(file, data, cache)
    if found is None:
        raise LowtideError(
            "no graph is in this file",
            given=path,
            cure="give an event file, a SavedModel, a .pb, .pbtxt, .meta or .keras file, a tide or a plan",
        )
    return found


def _model_file(folder: Path) -> Path:
    for name in MODEL_FILES:
        if (folder / name).is_file():
            return folder / name
    raise LowtideError("no SavedModel is in this folder", given=folder, cure="give a file, or a folder of an export")


def _find(path: Path, data: Buffer, cache: Path) -> FoundGraphs | None:
    if path.suffix in _OWN:
        return FoundGraphs(path.suffix[1:])
    if is_run_history(path):
        return FoundGraphs(RUN)
    if data[:4] == _ZIP or path.suffix == ".keras":
        return _find_in_archive(path, cache)
    if "tfevents" in path.name or is_event_file(data):
        return find_event_graphs(data, path, cache)
    if path.suffix == ".pbtxt" or first_field(data) is not None:
        return find_text_graphs(data, path, cache)
    message = recognize(data)
    if message == SAVED_MODEL or (message is None and path.name == MODEL_FILES[0]):
        return find_saved_model_graphs(data, path, cache)
    if message == META_GRAPH or (message is None and path.suffix == ".meta"):
        return find_meta_file_graphs(data, path)
    if message == GRAPH:
        return FoundGraphs("graph", (Span(0, len(data), "graph", path=path),))
    return None


def _find_in_archive(path: Path, cache: Path) -> FoundGraphs | None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = frozenset(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        members = frozenset()
    for suffix, header in _OWN.items():
        if header in members:
            return FoundGraphs(suffix[1:])
    return find_keras_graph(path, cache) if CONFIG in members or path.suffix == ".keras" else None
