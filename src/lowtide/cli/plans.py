"""The output of a plan, for `plan` and `explain`: the terminal or JSON on standard output, and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowtide.cli.output import tell_written, write_text
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
    report: PlanReport, *, as_json: bool, html: Path | None, svg: Path | None, written: list[Path] | None = None
) -> int:
    """Write the requested output of a plan, and return the exit code: 0 if the plan fits its budget."""
    drawn: list[tuple[Path, str]] = []
    if html is not None:
        from lowtide.view.html_page import render_html
        from lowtide.view.page_data.plan import plan_data

        drawn.append((html, render_html("plan", plan_data(report))))
    if svg is not None:
        from lowtide.view.pictures.plan_svg import render_plan_picture

        drawn.append((svg, render_plan_picture(report)))
    files = [write_text(path, text) for path, text in drawn]
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        from rich.console import Console

        from lowtide.view.terminal.plan import TerminalPlan

        Console().print(TerminalPlan(report))
    tell_written([*files, *(written or [])])
    return 0 if report.after.fits else 1


def emit_no_plan(error: NoPlanError, target: str, *, as_json: bool) -> int:
    """Show the smallest reachable budget and what would lower it, and return the exit code: 1. No files are written."""
    if as_json:
        click.echo(json.dumps({"target": target} | error.to_dict(), indent=2))
    else:
        from rich.console import Console

        from lowtide.view.terminal.plan import TerminalNoPlan

        Console().print(TerminalNoPlan(error, target))
    return 1
