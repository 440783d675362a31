"""lowtide run SCRIPT ARGUMENTS."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowtide.cli.options import check_writable, report_options, space_option
from lowtide.errors import LowtideError
from lowtide.progress import Progress, format_duration
from lowtide.units import parse_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from lowtide.cli.output import Rendering
    from lowtide.run.launch import Ending, Script
    from lowtide.run.outcome import Outcome
    from lowtide.view.reports.tide import TideReport

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--limit", type=parse_bytes, metavar="BYTES", help="A hard limit for the allocator, for example 8GiB.")
@click.option("--steps", default=3, type=click.IntRange(min=1), metavar="N", help="Record N steady steps, not 3.")
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@report_options
@space_option
@click.option("--save", type=_FILE, metavar="FILE", help="Write a .tide for lowtide explain.")
@click.option(
    "--log", type=_FILE, metavar="FILE", help="Write the complete standard error, with the allocator's dumps."
)
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    script: str,
    arguments: tuple[str, ...],
    limit: int | None,
    steps: int,
    module: bool,
    budget: int | None,
    top: int,
    as_json: bool,
    html: Path | None,
    svg: Path | None,
    force: bool,
    space: Path | None,
    save: Path | None,
    log: Path | None,
) -> int:
    """Run a script unchanged, and show the memory of its training step.

    SCRIPT and everything after it are passed to Python, which runs it as usual; its output, tracebacks and exit code
    are passed on. The report follows. If the script runs out of memory, the report explains why.

    Exits with the script's own code if that is not 0, else 1 if --budget was given and is not shown to hold.
    """
    check_writable([html, svg, space, save, log], force=force)
    if not module:
        check_script(script)
    from lowtide.cli.output import emit
    from lowtide.run.launch import Script

    with tempfile.TemporaryDirectory(prefix="lowtide-", ignore_cleanup_errors=True) as name:
        ending, outcome = _run(
            Script(script, arguments, is_module=module), Path(name), limit, steps, stdout_to_stderr=as_json
        )
        written = [] if log is None else [_copy(ending.log, log)]
    from lowtide.view.reports.tide import TideReport

    report = None if outcome.tide is None else TideReport(outcome.tide, budget, top=top, predicted=outcome.predicted)
    if save is not None and outcome.tide is not None:
        outcome.tide.save(save)
        written.append(save)
    emit(
        lambda: _to_dict(outcome, ending, script, report),
        lambda console: _print(console, outcome, ending, report),
        _files(outcome, report, html, svg, space),
        as_json=as_json,
        written=written,
    )
    is_shown_to_fit = report is not None and report.fits is not False
    return ending.as_exit_code or (1 if budget is not None and not is_shown_to_fit else 0)


def _run(
    script: Script, folder: Path, limit: int | None, steps: int, *, stdout_to_stderr: bool
) -> tuple[Ending, Outcome]:
    from lowtide.cli.output import progress
    from lowtide.run.launch import launch

    ending = launch(
        script,
        folder,
        limit_bytes=limit,
        steps=steps,
        recorder="lowtide.tf.record.script",
        stdout_to_stderr=stdout_to_stderr,
    )
    with progress() as on_progress:
        on_progress(Progress("reading the record"))
        from lowtide.run.outcome import read_outcome

        outcome = read_outcome(folder, ending, script.target)
        file = script.file if outcome.shortages else None
        if file is not None:
            from lowtide.oom.code_mistakes import name_mistakes

            shortages = tuple(name_mistakes(shortage, file) for shortage in outcome.shortages)
            outcome = replace(outcome, shortages=shortages)
        return ending, outcome


def _copy(source: Path, path: Path) -> Path:
    try:
        shutil.copyfile(source, path)
    except OSError as error:
        raise LowtideError(f"cannot write: {error.strerror}", given=path) from error
    return path


def check_script(name: str) -> None:
    """Refuse a script that does not exist; "-" is standard input."""
    path = Path(name)
    if name == "-" or path.exists():
        return
    names = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = [str(path.with_name(other)) for other in get_close_matches(path.name, names, n=3, cutoff=0.5)]
    cure = f"did you mean {' or '.join(near)}?" if near else "give the path of a script, or -m and the name of a module"
    raise LowtideError("there is no such script", given=name, cure=cure)


def _to_dict(outcome: Outcome, ending: Ending, target: str, report: TideReport | None) -> dict[str, Any]:
    from lowtide.tide.tide import JSON_SCHEMA_VERSION

    data = {"schema_version": JSON_SCHEMA_VERSION, "target": target} if report is None else report.to_dict()
    data["run"] = {
        "exit_code": ending.as_exit_code,
        "signal": ending.signal,
        "seconds": round(ending.seconds, 3),
        "ending": ending.words,
        "problem": outcome.problem,
    }
    data["shortages"] = [shortage.to_dict() for shortage in outcome.shortages]
    return data


def _print(console: Console, outcome: Outcome, ending: Ending, report: TideReport | None) -> None:
    from rich.text import Text

    # The last line of the script's output may have no line break.
    console.print()
    console.rule(Text("lowtide"), style="dim")
    console.print(Text(f"  {ending.words} after {format_duration(ending.seconds)}"))
    if outcome.shortages:
        from lowtide.view.terminal.shortage import TerminalShortage

        for shortage in outcome.shortages:
            console.print(TerminalShortage(shortage))
    if report is not None and not outcome.shortages:
        from lowtide.view.terminal.report import TerminalReport

        console.print(TerminalReport(report))
    if outcome.problem is not None:
        console.print(Text(f"  {outcome.problem}"))


def _files(
    outcome: Outcome, report: TideReport | None, html: Path | None, svg: Path | None, space: Path | None
) -> list[Rendering]:
    """Return the page and the pictures for which there is data."""
    from lowtide.cli.output import tide_files
    from lowtide.view.html_page import render_html
    from lowtide.view.page_data.shortage import shortage_data

    files: list[Rendering] = []
    if outcome.shortages:
        files.append((html, lambda: render_html("shortage", shortage_data(outcome.shortages))))
        html = None
    return files + ([] if report is None else tide_files(report, html, svg, space))
