"""The line of a script that begins a training, by which a restart recognizes it."""

from __future__ import annotations

import linecache
import sys
from typing import NamedTuple

_LIBRARIES = frozenset({"lowtide", "keras", "tensorflow"})


class Line(NamedTuple):
    """A line of a script."""

    file: str
    number: int
    text: str

    @property
    def is_unchanged(self) -> bool:
        """Whether the line is still in its place."""
        return bool(self.text) and _text(self.file, self.number) == self.text


def calling_line() -> Line:
    """Return the line by which the script has called a library."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        frame = frame.f_back
    file, number = frame.f_code.co_filename, frame.f_lineno
    return Line(file, number, _text(file, number))


def _text(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()
