"""A plan in the terminal."""

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.planning.plan import Action, NoPlanError
from lowtide.units import format_bytes
from lowtide.view.axis import AFTER_COLOUR, BEFORE_COLOUR, BUDGET_COLOUR
from lowtide.view.reports.frontier import Frontier
from lowtide.view.reports.plan import DONE, PlanReport, format_time
from lowtide.view.terminal.blocks import draw_curve, draw_two_curves
from lowtide.view.terminal.frontier import draw_frontier, frontier_table
from lowtide.view.terminal.report import cut_middle

_WIDE, _WIDEST = 110, 160
_CURVE_HEIGHT = 14
_FRONTIER_ROWS = 8


class TerminalPlan:
    """A plan as rich prints it, for any terminal width."""

    def __init__(self, report: PlanReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the answer, the curves, the actions, the frontier, and how to use the plan."""
        report, width = self.report, min(options.max_width, _WIDEST)
        colour = console.color_system is not None and not console.no_color
        yield from _set_in(_answer(report))
        yield Text()
        yield from _curves(report, width - 1, colour=colour)
        if report.actions and report.top:
            yield from _set_in([_actions(report, width - 2), *_rest(report)])
        if report.frontier.worth_showing:
            yield from _set_in(_frontier(report.frontier, width - 4))
        yield from _set_in(_footnotes(report))
        yield Text()


class TerminalNoPlan:
    """The answer where no plan reaches the budget."""

    def __init__(self, error: NoPlanError, title: str) -> None:
        self.error = error
        self.title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the smallest budget that can be reached, and what would lower it further."""
        error, width = self.error, min(options.max_width, _WIDEST)
        verdict = Text(f"✗ {error.problem} ({error.given})", f"bold {BUDGET_COLOUR}")
        yield from _set_in([verdict, Text(self.title), Text(str(error.cure))])
        frontier = Frontier.of(error)
        if frontier.worth_showing:
            yield from _set_in(_frontier(frontier, width - 4))
        yield Text()


def _set_in(lines: list[RenderableType]) -> RenderResult:
    """Yield an empty line, then the lines, indented."""
    if lines:
        yield Text()
        yield from (Padding(line, (0, 0, 0, 2)) for line in lines)


def _answer(report: PlanReport) -> list[RenderableType]:
    fits = bool(report.after.fits)
    return [
        Text(report.plan.summary(), "bold"),
        Text(report.title),
        Text(report.peaks_line, "dim"),
        Text(f"{'✓' if fits else '✗'} {report.after.verdict}", "bold green" if fits else f"bold {BUDGET_COLOUR}"),
    ]


def _curves(report: PlanReport, width: int, *, colour: bool) -> RenderResult:
    plan = report.plan
    if plan.changes_nothing:
        yield from draw_curve(report.after, width, _CURVE_HEIGHT, colour=colour)
        return
    colours = (BEFORE_COLOUR, AFTER_COLOUR)
    yield from draw_two_curves(
        plan.before, plan.after, colours, plan.budget_bytes, report.top_bytes, width, _CURVE_HEIGHT
    )
    legend = Text.assemble(("░", BEFORE_COLOUR), " before   ", ("█", AFTER_COLOUR), " after")
    yield Padding(legend, (0, 0, 0, 2))


def _actions(report: PlanReport, width: int) -> Table:
    rows = [_action_cells(action, wide=width >= _WIDE) for action in report.actions[: report.top]]
    headings = [heading for heading in rows[0] if any(row[heading] for row in rows)]
    widths = {heading: max(len(heading), *(len(row[heading]) for row in rows)) for heading in headings}
    # Names are shortened if necessary, numbers never.
    names = [heading for heading in ("node", "op", "layer") if heading in widths]
    while sum(widths.values()) + 2 * len(widths) > width and max(widths[name] for name in names) > 8:
        widths[max(names, key=lambda name: widths[name])] -= 1
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for heading in headings:
        table.add_column(
            heading,
            no_wrap=True,
            width=widths[heading],
            justify="right" if heading in ("saves", "costs") else "left",
            style="dim" if heading == "node" else "",
        )
    for row in rows:
        table.add_row(*(cut_middle(Text(row[heading]), widths[heading]) for heading in headings))
    return table


def _action_cells(action: Action, *, wide: bool) -> dict[str, str]:
    return {
        "what": DONE.get(action.kind, action.kind),
        "layer": action.layer or "(no layer)",
        "op": action.op or "",
        # An action without an op is described by its subject alone.
        "node": action.subject if wide or action.op is None else "",
        "saves": format_bytes(action.saves_bytes) if action.saves_bytes else "",
        "costs": format_time(action.costs_us) if action.costs_us else "",
    }


def _rest(report: PlanReport) -> list[RenderableType]:
    rest = report.rest
    if not rest.actions:
        return []
    saved = f" that save {format_bytes(rest.saves_bytes)}" if rest.saves_bytes else ""
    cost = f"{' and' if saved else ' that'} cost {format_time(rest.costs_us)}" if rest.costs_us else ""
    return [Text(f"and {rest.actions:,} more{saved}{cost}", "dim")]


def _frontier(frontier: Frontier, width: int) -> list[RenderableType]:
    heading = Text.assemble(
        "what other budgets cost", ("   ┃", BUDGET_COLOUR), f" budget {format_bytes(frontier.budget_bytes)}"
    )
    if frontier.chosen is not None:
        heading.append("   ◆ this plan")
    return [heading, frontier_table(frontier, _FRONTIER_ROWS), Text(), *draw_frontier(frontier, width)]


def _footnotes(report: PlanReport) -> list[RenderableType]:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for position, (code, purpose) in enumerate(report.usage):
        table.add_row("" if position else "to use it", Text.assemble((code, "bold"), (f"  {purpose}", "dim")))
    if not report.plan.changes_nothing:
        table.add_row("results", Text(report.results_line))
    for note in report.notes:
        table.add_row("note", Text(note))
    return [table] if table.row_count else []
