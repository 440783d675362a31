"""The frontier of a plan in the terminal: a table and a small chart."""

from rich.table import Table
from rich.text import Text

from lowtide.planning.plan import FrontierPoint, format_slowdown
from lowtide.units import format_bytes
from lowtide.view.axis import BUDGET_COLOUR, COLOURS, ticks
from lowtide.view.reports.frontier import Frontier
from lowtide.view.terminal.blocks import EIGHTHS

_COLOUR = COLOURS["workspace"]
_HEIGHT, _WIDEST = 8, 72

# A character and its style, by row from the bottom and by column.
_Rows = list[list[tuple[str, str]]]


def frontier_table(frontier: Frontier, count: int) -> Table:
    """Return a table of about `count` points, from the plain step down."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for heading in ("memory", "time", "recomputed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for point in frontier.rows(count):
        style = "bold" if point == frontier.chosen else ""
        cells = (format_bytes(point.peak_bytes), format_slowdown(point.slowdown), f"{point.recomputed:,}")
        table.add_row(*(Text(cell, style) for cell in cells), Text(frontier.describe(point), style or "dim"))
    return table


def draw_frontier(frontier: Frontier, width: int) -> list[Text]:
    """Return the lines of a chart: memory to the right, added time upwards, the budget and the plan."""
    top, highest = frontier.top_bytes, frontier.top_slowdown
    labels = {_HEIGHT - 1: format_slowdown(highest), 0: "+0%"}
    margin = max(map(len, labels.values())) + 1
    columns = max(10, min(_WIDEST, width - margin - 1))
    heights = _heights(frontier, columns)
    rows: _Rows = [
        [(EIGHTHS[max(0, min(8, height - row * 8))], _COLOUR) for height in heights] for row in range(_HEIGHT)
    ]
    budget = _column(frontier.budget_bytes, top, columns)
    if budget is not None:
        for cells in rows:
            cells[budget] = ("┃", BUDGET_COLOUR)
    if frontier.chosen is not None:
        _mark(rows, frontier.chosen, top, highest)
    lines = []
    for row in reversed(range(_HEIGHT)):
        line = Text(labels.get(row, "").rjust(margin - 1) + (" ┤" if row in labels else " │"), "dim")
        for character, colour in rows[row]:
            line.append(character, colour)
        lines.append(line)
    return [*lines, Text(" " * margin + "└" + "─" * columns, "dim"), _memory_axis(top, margin, columns)]


def _heights(frontier: Frontier, columns: int) -> list[int]:
    """Return how many eighths of a row to fill above each amount of memory; 0 where nothing fits it."""
    amounts = [(column + 1) * frontier.top_bytes / columns for column in range(columns)]
    return [round((frontier.slowdown_at(amount) or 0) / frontier.top_slowdown * _HEIGHT * 8) for amount in amounts]


def _column(size: int, top: int, columns: int) -> int | None:
    return min(columns - 1, size * columns // top) if size <= top else None


def _mark(rows: _Rows, point: FrontierPoint, top: int, highest: float) -> None:
    column = _column(point.peak_bytes, top, len(rows[0]))
    if column is not None:
        row = max(0, min(_HEIGHT - 1, int(point.slowdown / highest * _HEIGHT)))
        rows[row][column] = ("◆", "bold")


def _memory_axis(top: int, margin: int, columns: int) -> Text:
    line = " " * (margin + 1)
    for tick in ticks(top, max(2, columns // 12)):
        text, start = format_bytes(tick) if tick else "0", margin + 1 + tick * columns // top
        if start + len(text) <= margin + 1 + columns:
            line = line.ljust(start) + text
    return Text(line, "dim")
