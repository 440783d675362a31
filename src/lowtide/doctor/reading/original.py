"""Where code is in the text of its file: the positions that other programs understand, and the changes of the file."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from lowtide.doctor.problem import Edit, FileRegion, Span
from lowtide.doctor.reading.notebook_cells import CellText, find_code_cells
from lowtide.doctor.reading.source import Code

_LINE = re.compile(r"[^\r\n]*(\r\n|\n|\r|\Z)")


@dataclass(frozen=True)
class _OriginalLine:
    """A line of code: where it begins in the text that contains it, and what is before it in its line there."""

    begin: int
    indent: str
    line_end: str
    cell: CellText | None = None


class Original:
    """The text of a file that contains a source."""

    def __init__(self, source: Code, text: str) -> None:
        self.source = source
        self.text = text

    def locate(self, edit: Edit) -> Edit | None:
        """Return an edit of the source as an edit of the file; None if what it changes is not in the file as it is.

        Magics of notebooks are not: the source has comments in their place.
        """
        (first, first_column), (last, last_column) = map(self._position, edit.span)
        lines = [self._lines.get(number) for number in range(first, last + 1)]
        begin, end = lines[0], lines[-1]
        if begin is None or end is None or any(line is None or line.cell is not begin.cell for line in lines):
            return None
        span = self._offset(begin, first_column), self._offset(end, last_column)
        if span[0] is None or span[1] is None:
            return None
        if begin.cell is not None:
            return Edit((span[0], span[1]), begin.cell.encode(edit.text))
        return Edit((span[0], span[1]), edit.text.replace("\n", begin.line_end + begin.indent))

    def region(self, span: Span) -> FileRegion:
        """Return the lines and columns of a part of the file."""
        numbers = [bisect_right(self._file_starts, offset) for offset in span]
        columns = [offset - self._file_starts[number - 1] + 1 for offset, number in zip(span, numbers, strict=True)]
        return FileRegion(numbers[0], columns[0], numbers[1], columns[1])

    def find(self, cell: int | None, line: int, column: int) -> int | None:
        """Return the offset in the file of a position as mistakes have it; None if it is not in the file as it is."""
        if cell is None:
            return self._file_starts[line - 1] + column - 1 if line <= len(self._file_starts) else None
        first = next((each.first_line for each in self.source.cells if each.number == cell), None)
        found = None if first is None else self._lines.get(first + line - 1)
        return None if found is None else self._offset(found, column - 1)

    def _position(self, offset: int) -> tuple[int, int]:
        """Return the line of the source, from 1, and the column, from 0."""
        number = bisect_right(self._code_starts, offset)
        return number, offset - self._code_starts[number - 1]

    @staticmethod
    def _offset(line: _OriginalLine, column: int) -> int | None:
        offset = line.begin + column
        return offset if line.cell is None else line.cell.file_offset(offset)

    @cached_property
    def _code_starts(self) -> list[int]:
        starts = [0]
        for line in self.source.text.split("\n")[:-1]:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @cached_property
    def _file_starts(self) -> list[int]:
        return [begin for begin, _, _ in _split(self.text)]

    @cached_property
    def _lines(self) -> dict[int, _OriginalLine]:
        """The lines of the source that are in the file as they are, by number."""
        code = self.source.text.split("\n")
        if self.source.is_notebook:
            return self._lines_of_cells(code)
        first = (self.source.cells[0].file_line or 1) - 1 if self.source.cells else 0
        found = {}
        for number, (text, original) in enumerate(zip(code, _split(self.text)[first:], strict=False), 1):
            begin, line, end = original
            if line.endswith(text):
                indent = line[: len(line) - len(text)]
                found[number] = _OriginalLine(begin + len(indent), indent, end or "\n")
        return found

    def _lines_of_cells(self, code: list[str]) -> dict[int, _OriginalLine]:
        found = {}
        for place, cell in zip(self.source.cells, find_code_cells(self.text), strict=True):
            for number, (begin, line, _) in enumerate(_split(cell.text), place.first_line):
                if code[number - 1] == line:
                    found[number] = _OriginalLine(begin, "", "\n", cell)
        return found


def _split(text: str) -> list[tuple[int, str, str]]:
    """Return for each line of a text where it begins, its text, and what ends it."""
    found = []
    position = 0
    while True:
        match = _LINE.match(text, position)
        assert match is not None
        found.append((position, text[position : match.start(1)], match[1]))
        if not match[1]:
            return found
        position = match.end()
