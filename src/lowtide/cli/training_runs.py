"""The output of a training run, for `explain`: the terminal or JSON on standard output, and a page."""

from __future__ import annotations

from pathlib import Path

from lowtide.errors import LowtideError


def is_training_run(folder: Path) -> bool:
    """Whether this is the directory of a training run."""
    from lowtide.run.train.run_directory import RunDirectory

    return folder.is_dir() and RunDirectory(folder).exists


def explain_training_run(folder: Path, *, asked: str | None, as_json: bool, html: Path | None) -> int:
    """Show a training run, and return the exit code: 1 if it was given up.

    `asked` is a given option that does not apply to a run.
    """
    if asked is not None:
        raise LowtideError("a training run has no curve of a step", given=asked, cure="leave it out")
    from lowtide.cli.output import emit
    from lowtide.cli.train import run_to_dict
    from lowtide.run.train.run_directory import RunDirectory
    from lowtide.view.html_page import render_html
    from lowtide.view.page_data.training_run import training_run_data
    from lowtide.view.reports.training_run import GIVEN_UP, read_run_report
    from lowtide.view.terminal.training_run import TerminalTrainingRun

    report = read_run_report(folder)
    emit(
        lambda: run_to_dict(RunDirectory(folder), report.record),
        lambda console: console.print(TerminalTrainingRun(report)),
        [(html, lambda: render_html("run", training_run_data(report)))],
        as_json=as_json,
    )
    return 1 if report.state == GIVEN_UP else 0
