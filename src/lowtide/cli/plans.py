"""The output of a plan, for `plan` and `explain`: the terminal or JSON on standard output, and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.cli.output import Rendering, emit
from lowtide.errors import LowtideError

if TYPE_CHECKING:
    from lowtide.planning.plan import NoPlanError
    from lowtide.view.reports.plan import PlanReport


def explain_plan(file: Path, top: int, *, asked: str | None, as_json: bool, html: Path | None, svg: Path | None) -> int:
    """Show a saved plan, and return the exit code; `asked` is a given option that does not apply to a plan."""
    if asked is not None:
        raise LowtideError("a plan has its own budget", given=asked, cure="leave it out, or plan again")
    from lowtide.planning.plan import Plan
    from lowtide.view.reports.plan import PlanReport

    return emit_plan(PlanReport(Plan.load(file), top, str(file)), as_json=as_json, html=html, svg=svg)


def emit_plan(
    report: PlanReport, *, as_json: bool, html: Path | None, svg: Path | None, written: Sequence[Path] = ()
) -> int:
    """Write the requested output of a plan, and return the exit code: 0 if the plan fits its budget."""
    from lowtide.view.html_page import render_html
    from lowtide.view.page_data.plan import plan_data
    from lowtide.view.pictures.plan_svg import render_plan_picture
    from lowtide.view.terminal.plan import TerminalPlan

    files: list[Rendering] = [
        (html, lambda: render_html("plan", plan_data(report))),
        (svg, lambda: render_plan_picture(report)),
    ]
    emit(report.to_dict, lambda console: console.print(TerminalPlan(report)), files, as_json=as_json, written=written)
    return 0 if report.after.fits else 1


def emit_no_plan(error: NoPlanError, target: str, *, as_json: bool) -> int:
    """Show the smallest reachable budget and what would lower it, and return the exit code: 1. No files are written."""
    from lowtide.view.terminal.plan import TerminalNoPlan

    emit(
        lambda: {"target": target} | error.to_dict(),
        lambda console: console.print(TerminalNoPlan(error, target)),
        as_json=as_json,
    )
    return 1
