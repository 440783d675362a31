"""A forecast in the terminal."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.feed.forecast.forecast import Forecast
from lowtide.units import format_bytes
from lowtide.view.axis import BUDGET_COLOUR, COLOURS
from lowtide.view.reports.forecast import ForecastReport

_HEADINGS = ("stage", "takes", "holds", "elements", "of", "")


class TerminalForecast:
    """A forecast as rich prints it, for any terminal width."""

    def __init__(self, report: ForecastReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the answer, the stages, what to change, and the notes."""
        report = self.report
        lines = [Text(report.target, "bold"), Text(report.headline)]
        if report.verdict is not None:
            sign, style = ("✓", "bold green") if report.fits else ("✗", f"bold {BUDGET_COLOUR}")
            lines.append(Text(f"{sign} {report.verdict}", style))
        yield Text()
        yield from (Padding(line, (0, 0, 0, 2)) for line in lines)
        yield Text()
        yield Padding(_stages(report.forecast, min(options.max_width, 160)), (0, 0, 0, 2))
        yield Text()
        for advice in report.forecast.advice:
            yield Padding(Text(f"→ {advice.what}: saves {format_bytes(advice.saves_bytes)}"), (0, 0, 0, 2))
        for note in report.forecast.notes:
            yield Padding(Text(f"note: {note}", "dim"), (0, 0, 0, 2))
        yield Text()


def _stages(forecast: Forecast, width: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for column in _HEADINGS:
        table.add_column(column, no_wrap=True, justify="left" if column in ("stage", "") else "right")
    table.add_row(*(Text(heading, "dim") for heading in _HEADINGS))
    rows, sizes = forecast.rows(), forecast.row_bytes()
    longest = max(width - 8 - sum(max(len(row[column]) + 2 for row in rows) for column in range(5)), 8)
    for row, size in zip(rows, sizes, strict=True):
        bar = "█" * round(size / max(*sizes, 1) * min(longest, 40))
        table.add_row(*row, Text(bar, COLOURS["input"]))
    return table
