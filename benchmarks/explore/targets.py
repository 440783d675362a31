"""What is given damaged files: each target takes bytes, and may refuse them in its own words or accept them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lowtide.errors import LowtideError
from lowtide.sources.spans import find_graphs


@dataclass(frozen=True)
class Target:
    """A function of bytes that must end, in bounded time and memory, with an answer or with one of `refusals`."""

    name: str
    call: Callable[[bytes], object]
    seeds: str = ""
    """A part of the names of the files that it is made for; it is given others too, but fewer."""
    refusals: tuple[type[Exception], ...] = (LowtideError,)


# A disk of memory where there is one.
_DISK = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)


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


# The name of a file decides how it is read when its content does not, so every name gets every content.
TARGETS = [
    Target("events", _find("events.out.tfevents.1"), "tfevents"),
    Target("saved_model", _find("saved_model.pb"), "saved_model"),
    Target("graph", _find("graph.pb"), "frozen.pb"),
    Target("meta", _find("model.meta"), ".meta"),
    Target("text", _find("graph.pbtxt"), ".pbtxt"),
    Target("keras", _find("model.keras"), ".keras"),
    Target("unnamed", _find("file")),
]
