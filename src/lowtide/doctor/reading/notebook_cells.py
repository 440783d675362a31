"""Where the code of a notebook is in the text of its file, so that one line can change and all else stays as it is."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_SPACE = re.compile(r"[ \t\r\n]*")
# A character in a JSON string; two escapes in a row may be one character above U+FFFF.
_CHARACTER = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u\w{4}|\\.|.", re.DOTALL)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class CellText:
    """The source of a cell: a JSON string, or a list with one string for each line."""

    file: str
    tokens: tuple[tuple[int, int], ...]
    """For each string, the offsets in the file after its first and before its last quotation mark."""
    is_list: bool

    @cached_property
    def text(self) -> str:
        """The code."""
        return "".join(self._parts)

    @cached_property
    def _parts(self) -> list[str]:
        return [json.loads(f'"{self.file[begin:end]}"') for begin, end in self.tokens]

    @cached_property
    def _starts(self) -> list[int]:
        """The offset in the code at which each string begins."""
        starts = [0]
        for part in self._parts[:-1]:
            starts.append(starts[-1] + len(part))
        return starts

    def file_offset(self, offset: int) -> int | None:
        """Return where a character of the code is in the file; None in a cell without code."""
        if not self.tokens:
            return None
        # Between two strings, the begin of the second one.
        index = bisect_right(self._starts, offset) - 1
        position, end = self.tokens[index]
        for _ in range(offset - self._starts[index]):
            match = _CHARACTER.match(self.file, position, end)
            position = position if match is None else match.end()
        return position

    def encode(self, text: str) -> str:
        """Return code as it is written into the file, in the middle of a string."""
        lines = [json.dumps(line, ensure_ascii=self.file.isascii())[1:-1] for line in text.split("\n")]
        return (rf"\n\"{self._separator}\"".replace(r"\"", '"') if self.is_list else r"\n").join(lines)

    @property
    def _separator(self) -> str:
        """What stands between two strings of the list."""
        if len(self.tokens) > 1:
            return self.file[self.tokens[0][1] + 1 : self.tokens[1][0] - 1]
        before = self.file[: self.tokens[0][0] - 1]
        return "," + before[len(before.rstrip()) :]


def find_code_cells(file: str) -> list[CellText]:
    """Return the code cells of the text of a notebook, in order."""
    found = []
    for key, begin in _members(file, 0):
        if key != "cells":
            continue
        for cell in _elements(file, begin):
            values = dict(_members(file, cell))
            if _value(file, values.get("cell_type")) == "code":
                found.append(_cell_text(file, values.get("source")))
    return found


def _cell_text(file: str, begin: int | None) -> CellText:
    if begin is None:
        return CellText(file, (), is_list=True)
    is_list = file[begin] == "["
    strings = list(_elements(file, begin)) if is_list else [begin]
    return CellText(file, tuple((each + 1, _end(file, each) - 1) for each in strings), is_list)


def _members(file: str, begin: int) -> Iterator[tuple[str, int]]:
    """Yield the names of a JSON object and the offsets at which their values begin."""
    position = _skip_space(file, _skip_space(file, begin) + 1)
    while file[position] != "}":
        name, position = _DECODER.raw_decode(file, position)
        # Over the colon.
        value = _skip_space(file, _skip_space(file, position) + 1)
        yield name, value
        position = _next(file, value)


def _elements(file: str, begin: int) -> Iterator[int]:
    """Yield the offsets at which the elements of a JSON list begin."""
    position = _skip_space(file, begin + 1)
    while file[position] != "]":
        yield position
        position = _next(file, position)


def _next(file: str, begin: int) -> int:
    """Return the offset of what follows a value: the next one, or the bracket that closes."""
    position = _skip_space(file, _end(file, begin))
    return _skip_space(file, position + 1) if file[position] == "," else position


def _end(file: str, begin: int) -> int:
    return int(_DECODER.raw_decode(file, begin)[1])


def _value(file: str, begin: int | None) -> object:
    return None if begin is None else _DECODER.raw_decode(file, begin)[0]


def _skip_space(file: str, position: int) -> int:
    match = _SPACE.match(file, position)
    assert match is not None
    return match.end()
