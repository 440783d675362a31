"""The output of a report: the terminal or JSON on standard output, and files."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowtide.errors import LowtideError
from lowtide.progress import Progress, ProgressCallback, format_left

if TYPE_CHECKING:
    from rich.console import Console

    from lowtide.view.reports.forecast import ForecastReport
    from lowtide.view.reports.tide import TideReport


# A file to write, None if it was not asked for, and the function that renders its text.
Rendering = tuple[Path | None, Callable[[], str]]


def emit(
    data: Callable[[], dict[str, Any]],
    show: Callable[[Console], None],
    files: Iterable[Rendering] = (),
    *,
    as_json: bool,
    written: Sequence[Path] = (),
) -> None:
    """Write the files that were asked for, and print `data` as JSON or let `show` print the report.

    The names of these files, and of those that were `written` before, are printed on standard error.
    """
    # All are rendered before the first is written, so that an error leaves no file behind.
    rendered = [(path, render()) for path, render in files if path is not None]
    paths = [*(write_text(path, text) for path, text in rendered), *written]
    if as_json:
        click.echo(json.dumps(data(), indent=2))
    else:
        from rich.console import Console

        show(Console())
    for path in paths:
        click.echo(f"wrote {path}", err=True)


def tide_files(report: TideReport, html: Path | None, svg: Path | None, space: Path | None = None) -> list[Rendering]:
    """Return the page and the pictures of a tide."""
    from lowtide.view.html_page import render_html
    from lowtide.view.page_data.tide import tide_data
    from lowtide.view.pictures.address_space import render_address_picture
    from lowtide.view.pictures.tide_svg import render_picture

    return [
        (html, lambda: render_html("tide", tide_data(report))),
        (svg, lambda: render_picture(report)),
        (space, lambda: render_address_picture(report)),
    ]


def emit_tide(
    report: TideReport,
    *,
    as_json: bool,
    html: Path | None,
    svg: Path | None,
    space: Path | None = None,
    written: Sequence[Path] = (),
) -> int:
    """Write the requested output of a tide, and return the exit code: 1 if it does not fit, else 0."""
    from lowtide.view.terminal.report import TerminalReport

    files = tide_files(report, html, svg, space)
    emit(report.to_dict, lambda console: console.print(TerminalReport(report)), files, as_json=as_json, written=written)
    return 1 if report.fits is False else 0


def emit_forecast(report: ForecastReport, *, as_json: bool, html: Path | None, svg: Path | None) -> int:
    """Write the requested output of a forecast, and return the exit code: 1 if it does not fit, else 0."""
    from lowtide.view.html_page import render_html
    from lowtide.view.page_data.forecast import forecast_data
    from lowtide.view.pictures.forecast_svg import render_forecast_picture
    from lowtide.view.terminal.forecast import TerminalForecast

    files: list[Rendering] = [
        (html, lambda: render_html("forecast", forecast_data(report))),
        (svg, lambda: render_forecast_picture(report)),
    ]
    emit(report.to_dict, lambda console: console.print(TerminalForecast(report)), files, as_json=as_json)
    return 1 if report.fits is False else 0


def write_text(path: Path, text: str) -> Path:
    """Write a file, or raise an error of one line."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LowtideError(f"cannot write: {error.strerror}", given=path) from error
    return path


@contextmanager
def progress(begin: str = "starting TensorFlow") -> Iterator[ProgressCallback]:
    """Show progress and the elapsed time on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as ProgressBar
    from rich.text import Text

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    deadline: float | None = None

    class LeftColumn(ProgressColumn):
        """Counts down the estimate of what is left."""

        def render(self, task: Task) -> Text:
            left = None if deadline is None else deadline - time.monotonic()
            return Text("" if left is None else f"about {format_left(left)}" if left > 0 else "nearly done")

    with ProgressBar(*columns, LeftColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(begin, total=None)

        def show(progress: Progress) -> None:
            nonlocal deadline
            deadline = None if progress.left_seconds is None else time.monotonic() + progress.left_seconds
            total = None if progress.share is None else 1.0
            stage = str(replace(progress, left_seconds=None))
            bar.update(task, description=stage, completed=progress.share or 0, total=total)

        yield show


@contextmanager
def progress_on_target() -> Iterator[ProgressCallback]:
    """Show progress while a target is imported and traced, and keep its output out of the report."""
    # TensorFlow logs to standard error from C++; only this variable controls that.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # What a script prints while it is imported or traced must not end up in the output of --json.
    with progress() as on_progress, redirect_stdout(sys.stderr):
        yield on_progress
