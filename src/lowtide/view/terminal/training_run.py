"""A training run in the terminal."""

from datetime import datetime

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.progress import format_duration
from lowtide.run.train.decisions import FINISHED
from lowtide.view.axis import BUDGET_COLOUR
from lowtide.view.reports.training_run import CAUSE_COLOURS, CAUSES, GIVEN_UP, ShownAttempt, TrainingRunReport

_SIGNS = {FINISHED: ("✓ ", "bold green"), GIVEN_UP: ("✗ ", f"bold {BUDGET_COLOUR}")}


class TerminalTrainingRun:
    """A training run as rich prints it, for any terminal width."""

    def __init__(self, report: TrainingRunReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the state, the attempts with what was changed after each, the notes, and how to continue."""
        report = self.report
        sign, style = _SIGNS.get(report.state, ("", "bold"))
        lines = [
            Text(report.title, "bold"),
            Text(f"{sign}{report.state_line}", style),
            Text(report.progress_line),
        ]
        yield Text()
        yield from (Padding(line, (0, 0, 0, 2)) for line in lines)
        if report.attempts:
            yield Text()
            yield from _attempts(report.attempts)
        facts = [("checkpoint", report.checkpoint_line), *(("note", note.text) for note in report.notes)]
        facts += [("" if number else "what to do", advice) for number, advice in enumerate(report.advice)]
        facts.append(("to try again" if report.state == GIVEN_UP else "to continue", report.resume_command))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for label, text in facts:
            if text is not None:
                table.add_row(label, Text(text))
        if table.row_count:
            yield Text()
            yield Padding(table, (0, 0, 0, 2))
        yield Text()


def _attempts(attempts: list[ShownAttempt]) -> RenderResult:
    """Yield a line for each attempt, and below it what was said about its end and what was changed."""
    rows = [("attempt", "began", "took", "from", "ended by"), *(_cells(attempt) for attempt in attempts)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    below = (0, 0, 0, 2 + widths[0] + 2)
    for row, attempt in zip(rows, [None, *attempts], strict=True):
        number, *cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        line = Text(f"{'  '.join([number.strip().rjust(widths[0]), *cells])}  ", "" if attempt else "dim")
        line.append(row[-1], "" if attempt is None else CAUSE_COLOURS[attempt.cause])
        yield Padding(line, (0, 0, 0, 2))
        if attempt is not None:
            yield from (Padding(each, below) for each in _ending(attempt))


def _cells(attempt: ShownAttempt) -> tuple[str, str, str, str, str]:
    began = datetime.fromtimestamp(attempt.began).strftime("%Y-%m-%d %H:%M")
    return str(attempt.number), began, format_duration(attempt.seconds), attempt.origin, CAUSES[attempt.cause]


def _ending(attempt: ShownAttempt) -> list[Text]:
    lines = [Text(line, "dim") for line in (attempt.detail, attempt.explanation) if line]
    decision = attempt.decision
    return lines if decision is None else [*lines, Text(f"→ {decision.change}: {decision.reason}")]
