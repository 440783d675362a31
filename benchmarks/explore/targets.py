"""What is given damaged files: each target takes bytes, and may refuse them in its own words or accept them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lowtide.atlas.atlas import Atlas, Source
from lowtide.atlas.breadth_first import around
from lowtide.atlas.index_cache import build_atlas
from lowtide.atlas.node_details import node_details
from lowtide.atlas.screens.screen import make_node_screen
from lowtide.atlas.screens.screen_cache import screen_data
from lowtide.atlas.search import Query, search
from lowtide.errors import LowtideError
from lowtide.sources.graphs.find_graphs import find_graphs


@dataclass(frozen=True)
class FuzzTarget:
    """A function of bytes that must end, in bounded time and memory, with an answer or with one of `refusals`."""

    name: str
    call: Callable[[bytes], object]
    seeds: str = ""
    """A part of the names of the files that it is made for; it is given others too, but fewer."""
    refusals: tuple[type[Exception], ...] = (LowtideError,)


# A disk of memory where there is one.
_DISK = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)

# How many entries of an index are queried: damage shows in the first ones, and there are many inputs.
_ASKED = 8


def _find(name: str) -> Callable[[bytes], object]:
    def call(data: bytes) -> object:
        with tempfile.TemporaryDirectory(prefix="lowtide-fuzz-", dir=_DISK) as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            found = find_graphs(path, Path(folder) / "cache")
        for span in found.spans:
            if not 0 <= span.start <= span.end:
                raise AssertionError(f"a span from {span.start} to {span.end}")
        return found

    return call


def _index(data: bytes) -> object:
    """Build the index of bytes that may be a graph, and query what could be read of them."""
    with tempfile.TemporaryDirectory(prefix="lowtide-fuzz-", dir=_DISK) as folder:
        path = Path(folder) / "graph.pb"
        path.write_bytes(data)
        return build_atlas(Source(path, 0, len(data)), cache=Path(folder) / "cache").header


def _ask(data: bytes) -> object:
    """Build an index, and ask for all that the page asks for: every screen from the top, details, a search."""
    with tempfile.TemporaryDirectory(prefix="lowtide-fuzz-", dir=_DISK) as folder:
        path = Path(folder) / "graph.pb"
        path.write_bytes(data)
        atlas = build_atlas(Source(path, 0, len(data)), cache=Path(folder) / "cache")
        for part in range(min(len(atlas.parts), _ASKED)):
            _ask_for_screens(atlas, part)
        for node in range(min(len(atlas), _ASKED)):
            json.dumps(node_details(atlas, node))
            make_node_screen(atlas, around(atlas, node, 2).nodes, atlas.part_of(node), "around")
        return search(atlas, Query("a")).total


def _ask_for_screens(atlas: Atlas, part: int) -> None:
    waiting = [("", "")]
    for path, fold in waiting:
        screen = screen_data(atlas, part, path, fold)
        json.dumps(screen)
        if len(waiting) < _ASKED:
            openable = (item["key"] for item in screen["items"] if item["kind"] not in ("node", "function"))
            waiting += [tuple(key.partition("|")[::2]) for key in openable]


# The name of a file decides how it is read when its content does not, so every name gets every content.
TARGETS = [
    FuzzTarget("events", _find("events.out.tfevents.1"), "tfevents"),
    FuzzTarget("saved_model", _find("saved_model.pb"), "saved_model"),
    FuzzTarget("graph", _find("graph.pb"), "frozen.pb"),
    FuzzTarget("meta", _find("model.meta"), ".meta"),
    FuzzTarget("text", _find("graph.pbtxt"), ".pbtxt"),
    FuzzTarget("keras", _find("model.keras"), ".keras"),
    FuzzTarget("unnamed", _find("file")),
    FuzzTarget("index", _index, "frozen.pb"),
    FuzzTarget("answers", _ask, "frozen.pb"),
]
