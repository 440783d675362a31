"""Comparing two tides: what `explain BEFORE AFTER` and `predict --against` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lowtide.cli.output import Rendering, emit, tide_files
from lowtide.errors import LowtideError
from lowtide.units import GrowthLimit, parse_growth

if TYPE_CHECKING:
    from rich.console import Console

    from lowtide.tide.tide import Tide
    from lowtide.view.reports.difference import DifferenceReport
    from lowtide.view.reports.tide import TideReport

_Function = TypeVar("_Function", bound=Callable[..., Any])


def difference_options(function: _Function) -> _Function:
    """Add the options that need two tides."""
    limit = "Exit 1 if the peak grew by more, say 5% or 200MiB."
    for option in reversed(
        (
            click.option("--max-growth", type=parse_growth, metavar="GROWTH", help=limit),
            click.option("--markdown", is_flag=True, help="Print the difference as markdown, for a pull request."),
        )
    ):
        function = option(function)
    return function


def only_file(files: tuple[Path, ...], max_growth: GrowthLimit | None, markdown: bool) -> Path:
    """Return the only file, or raise an error that says what was expected."""
    if len(files) != 1:
        cure = "give a FILE to show, or two tides to compare: BEFORE AFTER"
        raise LowtideError("explain takes one file or two", given=f"{len(files)} files", cure=cure)
    _refuse_without_two(max_growth, markdown, cure="give two tides: lowtide explain BEFORE AFTER")
    return files[0]


def load_against(path: Path | None, max_growth: GrowthLimit | None, markdown: bool) -> Tide | None:
    """Return the tide to compare with, read before the prediction starts; None without one."""
    if path is None:
        _refuse_without_two(max_growth, markdown, cure="add --against FILE")
        return None
    from lowtide.tide.tide import Tide

    return Tide.load(path)


def check_one_form(*, as_json: bool, markdown: bool) -> None:
    """Refuse two output formats at once."""
    if as_json and markdown:
        raise LowtideError("only one output format is possible", given="--json and --markdown", cure="give one of them")


def _refuse_without_two(max_growth: GrowthLimit | None, markdown: bool, *, cure: str) -> None:
    given = "--max-growth" if max_growth is not None else "--markdown" if markdown else None
    if given is not None:
        raise LowtideError("there is nothing to compare with", given=given, cure=cure)


def explain_two(
    files: tuple[Path, ...],
    budget: int | None,
    top: int,
    max_growth: GrowthLimit | None,
    *,
    as_json: bool,
    markdown: bool,
    html: Path | None,
    svg: Path | None,
) -> int:
    """Show what changed between two saved tides, and return the exit code."""
    from lowtide.tide.diff import diff
    from lowtide.tide.tide import Tide
    from lowtide.view.html_page import render_html
    from lowtide.view.page_data.difference import difference_data
    from lowtide.view.pictures.overlay import render_overlay
    from lowtide.view.reports.difference import DifferenceReport
    from lowtide.view.reports.tide import TideReport

    before, after = (Tide.load(file) for file in files)
    shown = DifferenceReport(diff(before, after), TideReport(after, budget, top=top), max_growth)
    drawings: list[Rendering] = [
        (html, lambda: render_html("difference", difference_data(shown))),
        (svg, lambda: render_overlay([before, after], [file.name for file in files])),
    ]
    data = shown.to_dict() | {"budget": shown.report.to_dict()["budget"]}
    return _emit(shown, data, drawings, as_json=as_json, markdown=markdown)


def emit_against(
    before: Tide,
    report: TideReport,
    max_growth: GrowthLimit | None,
    *,
    as_json: bool,
    markdown: bool,
    html: Path | None,
    svg: Path | None,
    written: Sequence[Path] = (),
) -> int:
    """Show the change from `before` to the tide of a report, write its files, and return the exit code."""
    from lowtide.tide.diff import diff
    from lowtide.view.reports.difference import DifferenceReport

    shown = DifferenceReport(diff(before, report.tide), report, max_growth)
    data = report.to_dict() | {"against": shown.to_dict()}
    files = tide_files(report, html, svg)
    return _emit(shown, data, files, as_json=as_json, markdown=markdown, written=written)


def _emit(
    shown: DifferenceReport,
    data: dict[str, Any],
    files: Sequence[Rendering],
    *,
    as_json: bool,
    markdown: bool,
    written: Sequence[Path] = (),
) -> int:
    from lowtide.view.terminal.difference import TerminalDifference
    from lowtide.view.terminal.difference_markdown import render_markdown

    def show(console: Console) -> None:
        if markdown:
            click.echo(render_markdown(shown), nl=False)
        else:
            console.print(TerminalDifference(shown))

    emit(lambda: data, show, files, as_json=as_json, written=written)
    return 0 if shown.passes else 1
