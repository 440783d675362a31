"""What a rule finds."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

Span = tuple[int, int]
"""Two offsets of characters in the text of a source: the first one, and the one after the last."""


@dataclass(frozen=True)
class Edit:
    """A text that takes the place of a part of the source."""

    span: Span
    text: str


@dataclass(frozen=True)
class Problem:
    """A mistake in a module, as its rule describes it."""

    node: ast.AST
    """Where it is."""
    message: str
    """What is wrong with this code, and what it costs: one sentence without a full stop."""
    advice: str
    """What to write instead."""
    edits: tuple[Edit, ...] = ()
    """A change after which the program computes the same without the mistake; empty if there is none that is safe."""


@dataclass(frozen=True)
class FileRegion:
    """A part of a file; lines and columns are counted from 1, and the last column is the one after the part."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Replacement:
    """A text that takes the place of a part of a file."""

    region: FileRegion
    text: str


@dataclass(frozen=True)
class Mistake:
    """A mistake in a file."""

    code: str
    path: Path
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    advice: str
    cell: int | None = None
    """The number of the notebook's code cell, in which lines are counted; None in other files."""
    edits: tuple[Edit, ...] = ()
    excerpt: str = ""
    """The first line of it, as it is in the file."""
    region: FileRegion | None = None
    """Where it is in the file as a text; differs from the lines of cells in a notebook. None if that is unknown."""
    replacements: tuple[Replacement, ...] = ()
    """The edits, as changes of the file as a text."""

    @property
    def is_fixable(self) -> bool:
        """Whether `lowtide doctor --fix` can correct it."""
        return bool(self.edits)

    @property
    def place(self) -> str:
        """The place as editors and terminals understand it."""
        cell = "" if self.cell is None else f":cell {self.cell}"
        return f"{self.path}{cell}:{self.line}:{self.column}"
