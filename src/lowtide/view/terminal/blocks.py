"""Curves in the terminal, drawn with block characters: eight levels to a line of text."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.style import Style
from rich.text import Text

from lowtide.tide.downsample import highest_in, stretches
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes, format_count
from lowtide.view.axis import BUDGET_COLOUR, COLOURS, STACK, stack_at, ticks
from lowtide.view.reports.tide import TideReport

EIGHTHS = " ▁▂▃▄▅▆▇█"
_SHADE = "░"
_DIM = Style(dim=True)


@dataclass
class _Cell:
    character: str = " "
    front: str | None = None
    back: str | None = None
    bold: bool = False

    @property
    def empty(self) -> bool:
        return self.character in (" ", _SHADE)


def draw_curve(
    report: TideReport, width: int, height: int, *, colour: bool = True, is_complete: bool = True
) -> list[Text]:
    """Return the lines of the chart: the kinds stacked, the axis of bytes, the peak, the safe bound and the budget.

    Without `colour` the kinds cannot be distinguished, and only their sum is drawn. A step that is not complete because
    memory ran out has no safe bound.
    """
    tide = report.tide
    top = report.top_bytes
    labels, margin, columns = _axis(top, width, height)
    # Each column shows the highest event of its range, so that a narrow terminal loses no peak.
    events = highest_in(tide.curve.bytes_in_use, stretches(len(tide.curve), columns))
    cells = _stack(stack_at(tide, events), top, height, colour=colour)
    if report.budget_bytes is not None and report.budget_bytes <= top:
        budget = f"budget {format_bytes(report.budget_bytes)}"
        _draw_level(cells, _row_of(report.budget_bytes, top, height), "━", BUDGET_COLOUR, budget)
    if is_complete:
        bound = f"safe bound {format_bytes(tide.safe_bytes)}"
        _draw_level(cells, _row_of(tide.safe_bytes, top, height), "┄", None, bound)
    _mark_peak(cells, events.tolist().index(tide.peak_event), f"peak {format_bytes(tide.peak_bytes)}")
    return [*_lines(cells, labels, margin), _time_axis(format_count(len(tide.curve) - 1, "event"), margin, columns)]


def draw_two_curves(
    before: Tide, after: Tide, colours: tuple[str, str], budget_bytes: int, top: int, width: int, height: int
) -> list[Text]:
    """Return the lines of a chart of two steps: `after` is filled, and what `before` takes beyond it is shaded.

    Each step takes the full width: points above each other are at the same share of the events of their steps.
    """
    labels, margin, columns = _axis(top, width, height)
    events = [highest_in(tide.curve.bytes_in_use, stretches(len(tide.curve), columns)) for tide in (before, after)]
    high, low = (
        np.rint(tide.curve.bytes_in_use[at] * (height * 8 / top)).astype(int).tolist()
        for tide, at in zip((before, after), events, strict=True)
    )
    cells = [
        [_shade(upper - row * 8, lower - row * 8, colours) for upper, lower in zip(high, low, strict=True)]
        for row in range(height)
    ]
    if budget_bytes <= top:
        label = f"budget {format_bytes(budget_bytes)}"
        _draw_level(cells, _row_of(budget_bytes, top, height), "━", BUDGET_COLOUR, label)
    for tide, at, name, covering in ((before, events[0], "before", False), (after, events[1], "after", True)):
        column = at.tolist().index(tide.peak_event)
        _mark_peak(cells, column, f"{name} {format_bytes(tide.peak_bytes)}", over_shade=covering)
    axis = _time_axis("full step, start to end", margin, columns)
    return [*_lines(cells, labels, margin), axis]


def _axis(top: int, width: int, height: int) -> tuple[dict[int, str], int, int]:
    """Return the label of each row that has one, the width of the labels, and the columns that are left."""
    labels = {_row_of(tick, top, height): format_bytes(tick) for tick in ticks(top, max(3, height // 2))}
    margin = max(len(label) for label in labels.values()) + 1
    return labels, margin, max(10, width - margin - 1)


def _lines(cells: list[list[_Cell]], labels: dict[int, str], margin: int) -> list[Text]:
    lines = []
    for row in reversed(range(len(cells))):
        line = Text(labels.get(row, "").rjust(margin - 1) + " ", _DIM)
        line.append("┤" if row in labels else "│", _DIM)
        lines.append(_append_cells(line, cells[row]))
    return lines


def _row_of(size: int, top: int, height: int) -> int:
    return min(height - 1, int(size * height / top))


def _stack(sizes: npt.NDArray[np.int64], top: int, height: int, *, colour: bool) -> list[list[_Cell]]:
    levels = np.cumsum(sizes, axis=0)
    if not colour:
        levels[:] = levels[-1]
    eighths = np.rint(levels * (height * 8 / top)).astype(int).T.tolist()
    return [[_fill(column, row * 8) for column in eighths] for row in range(height)]


def _fill(levels: list[int], bottom: int) -> _Cell:
    """Return the cell of the eight levels above `bottom`: one colour, or two if a border is in it."""
    parts: list[tuple[int, str]] = []
    below = 0
    for level, kind in zip(levels, STACK, strict=True):
        share = min(level, bottom + 8) - max(below, bottom)
        if share > 0:
            parts.append((share, COLOURS[kind]))
        below = max(below, level)
    filled = sum(share for share, _ in parts)
    if not parts:
        return _Cell()
    if len(parts) == 1 or filled < 8:
        # A cell has two colours at most; where it is partly empty, one of them is the background.
        return _Cell(EIGHTHS[min(filled, 8)], max(parts)[1])
    largest = sorted(sorted(range(len(parts)), key=lambda position: parts[position][0])[-2:])
    (share, lower), (_, upper) = (parts[position] for position in largest)
    return _Cell(EIGHTHS[share], lower, upper)


def _shade(upper: int, lower: int, colours: tuple[str, str]) -> _Cell:
    """Return the cell of a column that one curve fills to `upper` eighths and the other to `lower`."""
    shade, fill = colours
    if lower > 0:
        return _Cell(EIGHTHS[min(lower, 8)], fill)
    # There are no eighths of shading: a cell that is at least half full is shaded.
    return _Cell(_SHADE, shade) if upper >= 4 else _Cell()


def _draw_level(cells: list[list[_Cell]], row: int, stroke: str, colour: str | None, label: str) -> None:
    line = cells[row]
    for cell in line:
        # Inside the area its colour becomes the background, so that a budget below the curve stays visible.
        if cell.empty or colour is not None:
            cell.back = None if cell.empty else (cell.back or cell.front)
            cell.character, cell.front = stroke, colour
    start = len(line) - len(label) - 1
    if start > 0 and all(cell.character == stroke and cell.back is None for cell in line[start - 1 :]):
        _write(line, start - 1, f" {label} ", colour)


def _mark_peak(cells: list[list[_Cell]], column: int, words: str, *, over_shade: bool = False) -> None:
    free = f" {_SHADE}━" if over_shade else " "
    above = next((row for row, line in enumerate(cells) if _is_free(line[column], free)), None)
    row = len(cells) - 1 if above is None else above
    _write(cells[row], column, "▼", None, bold=True)
    text, columns = f" {words} ", len(cells[0])
    start = column + 1 if column + 1 + len(text) <= columns else column - len(text)
    covered = cells[row][max(start, 0) : start + len(text)]
    if start >= 0 and all(_is_free(cell, f"{free}┄━") for cell in covered):
        _write(cells[row], start, text, None, bold=True)


def _is_free(cell: _Cell, free: str) -> bool:
    return cell.back is None and cell.character in free


def _write(line: list[_Cell], start: int, text: str, colour: str | None, *, bold: bool = False) -> None:
    for offset, character in enumerate(text):
        line[start + offset] = _Cell(character, colour, None, bold)


def _append_cells(line: Text, cells: list[_Cell]) -> Text:
    for cell in cells:
        style = Style(color=cell.front, bgcolor=cell.back, bold=cell.bold, dim=cell.character == "┄")
        line.append(cell.character, style)
    return line


def _time_axis(label: str, margin: int, columns: int) -> Text:
    end = f" {label}"
    if len(end) > columns:
        end = ""
    axis = " " * margin + "└" + "─" * (columns - len(end)) + end
    return Text(axis, _DIM)
