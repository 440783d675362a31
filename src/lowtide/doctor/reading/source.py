"""What is checked: Python files, the code cells of notebooks, the Python blocks of Markdown files."""

from __future__ import annotations

import json
import re
import tokenize
from bisect import bisect_right
from codecs import BOM_UTF8
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from lowtide.doctor.reading.magics import without_magics
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
    indent: int = 0
    """How many characters of each line of the file are left out, because the block is indented."""


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

    @property
    def indent(self) -> int:
        """How many characters of each line are left out of the text; those of an indented block in a Markdown file."""
        return self.cells[0].indent if self.cells else 0

    def find_place(self, line: int) -> tuple[int | None, int]:
        """Return the number of the cell of a line, None outside of notebooks, and the line to show."""
        if not self.cells:
            return None, line
        cell = self.cells[max(bisect_right([each.first_line for each in self.cells], line) - 1, 0)]
        if cell.file_line is not None:
            return None, line - cell.first_line + cell.file_line
        return cell.number, line - cell.first_line + 1


@dataclass(frozen=True)
class FileText:
    """The whole text of a file, with its own line ends, and its encoding."""

    text: str
    encoding: str


def read_source(path: Path) -> list[Code]:
    """Return the code of a file; a Markdown file has one source for each block, because its blocks are independent."""
    return parse_source(path, read_text(path).text)


def read_text(path: Path) -> FileText:
    """Return the text of a file: Python names its encoding in the file, other files are in UTF-8."""
    try:
        return decode(path.read_bytes(), path)
    except OSError as error:
        raise LowtideError(f"the file cannot be read: {error.strerror}", given=path) from error


def decode(content: bytes, path: Path) -> FileText:
    """Return the text of the content of a file."""
    try:
        encoding = "utf-8-sig" if content.startswith(BOM_UTF8) else "utf-8"
        if path.suffix not in (".ipynb", ".md"):
            encoding, _ = tokenize.detect_encoding(BytesIO(content).readline)
        return FileText(content.decode(encoding, "replace" if path.suffix == ".md" else "strict"), encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise LowtideError("the file is not text in the encoding that it names", given=path) from error


def parse_source(path: Path, text: str) -> list[Code]:
    """Return the code in the text of a file of this name."""
    if path.suffix == ".ipynb":
        return [_read_notebook(path, text)]
    text = with_plain_line_ends(text)
    return _read_markdown(path, text) if path.suffix == ".md" else [Code(path, text)]


def with_plain_line_ends(text: str) -> str:
    """Return a text whose lines all end as Python's do."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _read_notebook(path: Path, text: str) -> Code:
    try:
        content = json.loads(text)
        texts = ["".join(cell.get("source", ())) for cell in content["cells"] if cell.get("cell_type") == "code"]
        metadata = content.get("metadata", {})
        language = (metadata.get("language_info") or {}).get("name", "python")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LowtideError("the file is not a notebook", given=path) from error
    if str(language).lower() not in ("python", "ipython"):
        return Code(path, "")
    lines: list[str] = []
    cells = []
    for number, cell in enumerate(texts, 1):
        cells.append(CodeCell(number, len(lines) + 1))
        lines += without_magics(with_plain_line_ends(cell))
    return Code(path, "\n".join(lines) + "\n", tuple(cells))


def _read_markdown(path: Path, content: str) -> list[Code]:
    found: list[Code] = []
    block: list[str] | None = None
    indent = 0
    for number, line in enumerate(content.split("\n"), 1):
        if block is None:
            if match := _BLOCK_BEGIN.match(line):
                block, indent, begin = [], len(match[1]), number + 1
        elif _BLOCK_END.match(line):
            text = "\n".join(without_magics("\n".join(block))) + "\n"
            found.append(Code(path, text, (CodeCell(len(found) + 1, 1, begin, indent),)))
            block = None
        else:
            block.append(line[indent:] if not line[:indent].strip() else line.lstrip())
    return found
