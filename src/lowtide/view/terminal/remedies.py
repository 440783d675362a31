"""An examination in the terminal."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.planning.remedies.remedy import Remedy
from lowtide.units import format_bytes
from lowtide.view.axis import BUDGET_COLOUR
from lowtide.view.reports.remedies import RemedyReport


class TerminalRemedies:
    """What holds the peak and the remedies, as rich prints them for any terminal width."""

    def __init__(self, report: RemedyReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the answer, what holds the peak, the remedies, and the notes."""
        report = self.report
        yield Text()
        lines = [Text(report.title, "bold"), Text(report.headline)]
        if report.verdict is not None:
            sign, style = ("✓", "bold green") if report.fits else ("✗", f"bold {BUDGET_COLOUR}")
            lines.append(Text(f"{sign} {report.verdict}", style))
        yield from (Padding(line, (0, 0, 0, 2)) for line in lines)
        yield Text()
        if report.examination.holders:
            yield Padding(Text("at the peak", "dim"), (0, 0, 0, 2))
            yield Padding(_holders(report), (0, 0, 1, 2))
        for remedy in report.examination.remedies:
            yield Padding(_remedy(report, remedy), (0, 0, 1, 2))
        for note in report.examination.notes:
            yield Padding(Text(f"note: {note}", "dim"), (0, 0, 0, 2))
        if report.examination.notes:
            yield Text()


def _holders(report: RemedyReport) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for holder in report.examination.holders:
        share = f"{holder.bytes / max(report.examination.total_bytes, 1):.0%}"
        table.add_row(format_bytes(holder.bytes), share, holder.name, holder.detail)
    return table


def _remedy(report: RemedyReport, remedy: Remedy) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    where = "" if remedy.source is None else f"{remedy.source}  "
    saving = Text.assemble("saves ", (format_bytes(remedy.saves_bytes), "bold"), f" {report.saving(remedy)}")
    table.add_row(Text("·", "dim"), saving)
    table.add_row("", Text.assemble((where, "bold"), remedy.problem))
    table.add_row("", Text(f"→ {remedy.advice}"))
    table.add_row("", Text("; ".join(report.details(remedy)), "dim"))
    return table
