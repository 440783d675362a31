"""What is checked: Python files, the code cells of notebooks, the Python blocks of Markdown files."""

from __future__ import annotations

import json
import re
import tokenize
from bisect import bisect_right
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from lowtide.doctor.magics import without_magics
from lowtide.errors import LowtideError

SUFFIXES = (".py", ".ipynb", ".md")
_BLOCK_BEGIN = re.compile(r"^(\s*)```+\s*(python|py|python3)\b.*$", re.IGNORECASE)
_BLOCK_END = re.compile(r"^\s*```+\s*$")


@dataclass(frozen=True)
class CodeCell:
    """A part of a file that is code: a cell of a notebook or a block of a Markdown file, counted from 1."""

    number: int
    first_line: int
    """The line of the source's text with which the part begins, counted from 1."""
    file_line: int | None = None
    """The line of the file that this is; None in a notebook, where lines are counted in each cell."""


@dataclass(frozen=True)
class Code:
    """Python code, as one text; the cells of a notebook follow each other."""

    path: Path
    text: str
    cells: tuple[CodeCell, ...] = ()

    @property
    def is_notebook(self) -> bool:
        """Whether the lines are those of cells."""
        return self.path.suffix == ".ipynb"

    def find_place(self, line: int) -> tuple[int | None, int]:
        """Return the number of the cell of a line, None outside of notebooks, and the line to show."""
        if not self.cells:
            return None, line
        cell = self.cells[max(bisect_right([each.first_line for each in self.cells], line) - 1, 0)]
        if cell.file_line is not None:
            return None, line - cell.first_line + cell.file_line
        return cell.number, line - cell.first_line + 1


def read_source(path: Path) -> list[Code]:
    """Return the code of a file; a Markdown file has one source for each block, because its blocks are independent."""
    try:
        if path.suffix == ".ipynb":
            return [_read_notebook(path)]
        if path.suffix == ".md":
            return _read_markdown(path)
        with tokenize.open(path) as file:
            return [Code(path, file.read())]
    except OSError as error:
        raise LowtideError(f"cannot read the file: {error.strerror}", given=path) from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise LowtideError("the file is not text in the encoding that it names", given=path) from error


def parse_text(text: str, name: str = "<text>") -> Code:
    """Return the source of a text, as if it were a file of this name."""
    encoding, _ = tokenize.detect_encoding(BytesIO(text.encode()).readline)
    assert encoding
    return Code(Path(name), text)


def _read_notebook(path: Path) -> Code:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = [cell for cell in content["cells"] if cell.get("cell_type") == "code"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LowtideError("the file is not a notebook", given=path) from error
    lines: list[str] = []
    cells = []
    for number, cell in enumerate(found, 1):
        text = "".join(cell.get("source", ()))
        cells.append(CodeCell(number, len(lines) + 1))
        lines += without_magics(text)
    return Code(path, "\n".join(lines) + "\n", tuple(cells))


def _read_markdown(path: Path) -> list[Code]:
    found: list[Code] = []
    block: list[str] | None = None
    indent = 0
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        if block is None:
            if match := _BLOCK_BEGIN.match(line):
                block, indent, begin = [], len(match[1]), number + 1
        elif _BLOCK_END.match(line):
            text = "\n".join(without_magics("\n".join(block))) + "\n"
            found.append(Code(path, text, (CodeCell(len(found) + 1, 1, begin),)))
            block = None
        else:
            block.append(line[indent:] if not line[:indent].strip() else line)
    return found
