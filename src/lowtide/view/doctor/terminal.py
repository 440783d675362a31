"""What the doctor found, as text: for a terminal, and for files and pipes, where each line stays whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.doctor.check import UNREADABLE
from lowtide.doctor.checkup import Checkup
from lowtide.doctor.problem import Mistake
from lowtide.view.doctor.lines import summary_line

# A place that is longer stands on a line of its own on a terminal.
_LONGEST_PLACE = 32
_MARGIN = 2
_CODE, _ERROR, _MARK = "bold cyan", "bold red", "red"


class TerminalCheckup:
    """A checkup as rich prints it: a line for each problem with the advice below it, and how many there are."""

    def __init__(self, checkup: Checkup, arguments: Sequence[str] = ()) -> None:
        self.checkup = checkup
        self.arguments = arguments

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the problems with the lines of code, wrapped to the width of the terminal, and the summary."""
        mistakes = self.checkup.mistakes
        for mistake in mistakes:
            yield from _wrapped(mistake)
        sign, style = ("", "bold") if mistakes else ("✓ ", "bold green")
        yield Text(f"{sign}{summary_line(self.checkup, self.arguments)}", style)
        if mistakes:
            yield Text(f"lowtide doctor --explain {mistakes[-1].code} says why it is a problem", "dim")


def render_text(checkup: Checkup, arguments: Sequence[str] = ()) -> str:
    """Return the same without colours and code, with two lines for each problem, however long they are."""
    return "".join(f"{line}\n" for line in [*_plain(checkup), summary_line(checkup, arguments)])


def _plain(checkup: Checkup) -> Iterator[str]:
    for mistake in checkup.mistakes:
        yield f"{mistake.place}  {mistake.code}  {mistake.message}"
        yield " " * (cell_len(mistake.place) + _MARGIN) + mistake.advice


def _wrapped(mistake: Mistake) -> RenderResult:
    place = Text(mistake.place, "bold")
    style = _ERROR if mistake.code == UNREADABLE else _CODE
    message = Text.assemble((mistake.code, style), f"  {mistake.message}")
    below: list[Text] = [message, Text(mistake.advice, "dim"), *_code(mistake)]
    if cell_len(mistake.place) <= _LONGEST_PLACE:
        table = Table.grid(padding=(0, _MARGIN, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for number, line in enumerate(below):
            table.add_row(Text() if number else place, line)
        yield table
    else:
        yield place
        yield from (Padding(line, (0, 0, 0, 2 * _MARGIN)) for line in below)


def _code(mistake: Mistake) -> list[Text]:
    """Return the line of code and a line that marks the part of it; nothing if the part is all there is to see."""
    line = mistake.excerpt.expandtabs(1).rstrip()
    code = line.strip()
    if not code:
        return []
    begin = mistake.column - 1 - (len(line) - len(line.lstrip()))
    end = len(code) if mistake.end_line > mistake.line else begin + mistake.end_column - mistake.column
    # Wide characters take two columns.
    margin, width = cell_len(code[:begin]), max(1, cell_len(code[begin:end]))
    marks = Text(" " * margin + "^" * width, _MARK, no_wrap=True, overflow="crop")
    return [Text(code, no_wrap=True, overflow="ellipsis"), marks]
