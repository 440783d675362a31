"""What a pipeline will hold, as a report: in the terminal, as a picture, and as a page."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from html import escape
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.feed.forecast.forecast import Forecast
from lowtide.units import format_bytes
from lowtide.view.axis import BUDGET_COLOUR, COLOURS
from lowtide.view.page import card, page_frame
from lowtide.view.pictures.svg_frame import frame

_HELD, _WORKING = COLOURS["input"], COLOURS["workspace"]
_RIGHT = ' style="text-align:right"'
_WIDTH, _NAMES, _AMOUNTS, _ROW, _TOP, _BOTTOM = 960, 300, 120, 26, 92, 40


@dataclass(frozen=True)
class ForecastReport:
    """A forecast, of what, and for which budget."""

    forecast: Forecast
    target: str
    budget_bytes: int | None = None

    @property
    def fits(self) -> bool | None:
        """Whether it is expected to fit; None without a budget."""
        return None if self.budget_bytes is None else self.forecast.fits(self.budget_bytes)

    @property
    def verdict(self) -> str | None:
        """Whether it fits, in words."""
        if self.budget_bytes is None:
            return None
        budget, spare = format_bytes(self.budget_bytes), self.budget_bytes - self.forecast.peak_bytes
        if spare < 0:
            return f"does not fit in {budget}: {format_bytes(-spare)} too much"
        if self.forecast.safe_bytes > self.budget_bytes:
            return f"may come above {budget}: what is expected fits, the upper bound does not"
        return f"fits in {budget}, with {format_bytes(self.budget_bytes - self.forecast.safe_bytes)} to spare"

    @property
    def headline(self) -> str:
        """The answer in a line."""
        told = self.forecast
        return f"holds {format_bytes(told.peak_bytes)} at its peak, at most {format_bytes(told.safe_bytes)}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return {
            **self.forecast.to_dict(),
            "target": self.target,
            "budget_bytes": self.budget_bytes,
            "fits": self.fits,
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts from the answer down to its grounds."""
        lines = [Text(self.target, "bold"), Text(self.headline)]
        if self.verdict is not None:
            sign, style = ("✓", "bold green") if self.fits else ("✗", f"bold {BUDGET_COLOUR}")
            lines.append(Text(f"{sign} {self.verdict}", style))
        yield Text()
        yield from (Padding(line, (0, 0, 0, 2)) for line in lines)
        yield Text()
        yield Padding(self._stages(min(options.max_width, 160)), (0, 0, 0, 2))
        yield Text()
        for advice in self.forecast.advice:
            yield Padding(Text(f"→ {advice.what}: saves {format_bytes(advice.saves_bytes)}"), (0, 0, 0, 2))
        for note in self.forecast.notes:
            yield Padding(Text(f"note: {note}", "dim"), (0, 0, 0, 2))
        yield Text()

    def _stages(self, width: int) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        for column in ("stage", "takes", "holds", "elements", "of", ""):
            table.add_column(column, no_wrap=True, justify="left" if column in ("stage", "") else "right")
        table.add_row(*(Text(heading, "dim") for heading in ("stage", "takes", "holds", "elements", "of", "")))
        rows, sizes = self.forecast.rows(), self.forecast.row_bytes()
        longest = max(width - 8 - sum(max(len(row[column]) + 2 for row in rows) for column in range(5)), 8)
        for row, size in zip(rows, sizes, strict=True):
            bar = "█" * round(size / max(*sizes, 1) * min(longest, 40))
            table.add_row(*row, Text(bar, _HELD))
        return table


def render_forecast_picture(report: ForecastReport) -> str:
    """Return the SVG text: a bar for each stage, of what waits in it and what it works with."""
    told = report.forecast
    rows = [("whoever takes them", 0, told.taken_bytes, 0)]
    rows += [(each.name, each.depth, each.held_bytes, each.working_bytes) for each in told.holdings]
    largest = max(*(held + working for _, _, held, working in rows), 1)
    room = _WIDTH - _NAMES - _AMOUNTS
    parts = [
        f'<text class="ink big" x="24" y="38">{escape(report.target)}</text>',
        f'<text class="ink" x="24" y="62">{escape(report.headline)}</text>',
    ]
    for number, (name, depth, held, working) in enumerate(rows):
        y = _TOP + number * _ROW
        first, second = held / largest * room, working / largest * room
        amount = format_bytes(held + working)
        parts += [
            f'<text class="ink" x="{24 + 12 * depth}" y="{y + 13}">{escape(name)}</text>',
            f'<rect fill="{_HELD}" x="{_NAMES}" y="{y}" width="{first:.1f}" height="17"/>',
            f'<rect fill="{_WORKING}" x="{_NAMES + first:.1f}" y="{y}" width="{second:.1f}" height="17"/>',
            f'<text class="muted" x="{_NAMES + first + second + 8:.1f}" y="{y + 13}">{amount}</text>',
        ]
    height = _TOP + len(rows) * _ROW + _BOTTOM
    for x, colour, text in ((24, _HELD, "waits in the stage"), (190, _WORKING, "is worked with")):
        parts.append(f'<rect fill="{colour}" x="{x}" y="{height - 28}" width="11" height="11" rx="2"/>')
        parts.append(f'<text class="muted" x="{x + 17}" y="{height - 18}">{text}</text>')
    return frame(f"{report.target} {report.headline}", parts, height)


def render_forecast_page(report: ForecastReport) -> str:
    """Return the HTML text: the picture, the stages, what to change, and what is not known."""
    headings = ("stage", "takes", "holds", "elements", "of")
    rows = "".join(
        f'<tr><td style="white-space:pre">{escape(row[0])}</td>'
        + "".join(f'<td class="number">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in report.forecast.rows()
    )
    head = "".join(f"<th{'' if each == 'stage' else _RIGHT}>{each}</th>" for each in headings)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    changes = [f"{each.what}: saves {format_bytes(each.saves_bytes)}" for each in report.forecast.advice]
    sections = [
        # As an image it has a style of its own.
        f'<section class="card"><img alt="{escape(report.headline)}" src="{_inline(report)}"></section>',
        card("Stages", table),
        card("What to change", _list(changes)),
        card("Notes", _list([*([report.verdict] if report.verdict else []), *report.forecast.notes])),
    ]
    return page_frame(f"{report.target} {report.headline}", "\n".join(sections), "img { width: 100% }")


def _inline(report: ForecastReport) -> str:
    return "data:image/svg+xml;base64," + b64encode(render_forecast_picture(report).encode()).decode()


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""
