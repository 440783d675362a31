"""The output of a report: the terminal or JSON on standard output, and files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowtide.errors import LowtideError
from lowtide.progress import Progress, ProgressCallback

if TYPE_CHECKING:
    from lowtide.view.reports.forecast import ForecastReport
    from lowtide.view.reports.tide import TideReport


def emit(
    report: TideReport, *, as_json: bool, html: Path | None = None, svg: Path | None = None, space: Path | None = None
) -> int:
    """Write the requested output of a tide, and return the exit code: 1 if it does not fit, else 0."""
    written = write_files(report, html, svg, space)
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        from rich.console import Console

        from lowtide.view.terminal.report import TerminalReport

        console = Console()
        console.print(TerminalReport(report))
    tell_written(written)
    return 1 if report.fits is False else 0


def emit_forecast(report: ForecastReport, *, as_json: bool, html: Path | None, svg: Path | None) -> int:
    """Write the requested output of a forecast, and return the exit code: 1 if it does not fit, else 0."""
    written: list[Path] = []
    if html is not None:
        from lowtide.view.html_page import render_html
        from lowtide.view.page_data.forecast import forecast_data

        written.append(write_text(html, render_html("forecast", forecast_data(report))))
    if svg is not None:
        from lowtide.view.pictures.forecast_svg import render_forecast_picture

        written.append(write_text(svg, render_forecast_picture(report)))
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        from rich.console import Console

        from lowtide.view.terminal.forecast import TerminalForecast

        Console().print(TerminalForecast(report))
    tell_written(written)
    return 1 if report.fits is False else 0


def write_files(report: TideReport, html: Path | None, svg: Path | None, space: Path | None = None) -> list[Path]:
    """Write the requested page and pictures of a tide, and return their paths."""
    # All are rendered before the first is written, so that an error leaves no file behind.
    drawn: list[tuple[Path, str]] = []
    if html is not None:
        from lowtide.view.html_page import render_html
        from lowtide.view.page_data.tide import tide_data

        drawn.append((html, render_html("tide", tide_data(report))))
    if svg is not None:
        from lowtide.view.pictures.tide_svg import render_picture

        drawn.append((svg, render_picture(report)))
    if space is not None:
        from lowtide.view.pictures.address_space import render_address_picture

        drawn.append((space, render_address_picture(report)))
    return [write_text(path, text) for path, text in drawn]


def tell_written(written: list[Path]) -> None:
    """Print the written files on standard error."""
    for path in written:
        click.echo(f"wrote {path}", err=True)


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
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as ProgressBar

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    with ProgressBar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(begin, total=None)

        def show(progress: Progress) -> None:
            total = None if progress.share is None else 1.0
            bar.update(task, description=str(progress), completed=progress.share or 0, total=total)

        yield show


@contextmanager
def looking_at_a_target() -> Iterator[ProgressCallback]:
    """Show progress while a target is imported and traced, and keep its output out of the report."""
    # TensorFlow logs to standard error from C++; only this variable controls that.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # What a script prints while it is imported or traced must not end up in the output of --json.
    with progress() as tell, redirect_stdout(sys.stderr):
        yield tell
