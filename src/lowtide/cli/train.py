"""lowtide train --out DIR SCRIPT ARGUMENTS, and lowtide train --resume DIR."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowtide.cli.run import check_script
from lowtide.errors import LowtideError
from lowtide.planning.allowance import ALLOWANCES
from lowtide.units import parse_bytes

if TYPE_CHECKING:
    from lowtide.oom.shortage import Shortage
    from lowtide.run.launch import Script
    from lowtide.run.train.history import Event
    from lowtide.run.train.run_directory import RunDirectory, TrainingRecord

_DIRECTORY = click.Path(path_type=Path)
_STANDARD_INPUT = "-"
_STDERR = 2
_LEAST_BUDGET_BYTES = 1 << 20
# Back to the start of a line and clear it: the script may have drawn a part of a progress bar, which it draws again.
_CLEAR_LINE = "\r\x1b[K"


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--out", type=_DIRECTORY, metavar="DIR", help="The directory of the run: a new one, or one to continue.")
@click.option("--resume", type=_DIRECTORY, metavar="DIR", help="Continue the run in this directory.")
@click.option(
    "--budget", type=parse_bytes, metavar="BYTES", help="A hard limit for the allocator, which steps are planned for."
)
@click.option(
    "--allow",
    type=click.Choice(list(ALLOWANCES)),
    multiple=True,
    help="Allow a change of results; may be given more than once.",
)
@click.option(
    "--checkpoint-minutes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="M",
    help="Write a checkpoint every M minutes, not 5.",
)
@click.option(
    "--checkpoint-steps", type=click.IntRange(min=1), metavar="N", help="Write a checkpoint every N steps as well."
)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on standard output, when the run has ended.")
@click.argument("script", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    out: Path | None,
    resume: Path | None,
    budget: int | None,
    allow: tuple[str, ...],
    checkpoint_minutes: float | None,
    checkpoint_steps: int | None,
    module: bool,
    as_json: bool,
    script: str | None,
    arguments: tuple[str, ...],
) -> int:
    """Train to the end: a script that runs out of memory, crashes or is killed is started again where it was.

    SCRIPT and everything after it are passed to Python, which runs it as usual. Its training is checkpointed into the
    directory of the run and continues with the next batch after any restart. When memory runs out, lowtide says why
    and what it changes.

    Exits 0 if the script has ended well, 1 if memory ran out and nothing is left to change, else with the script's own
    code, and with 128 plus its number if a signal stopped the run, which --resume continues.
    """
    options = _options(budget, allow, checkpoint_minutes, checkpoint_steps)
    if resume is not None:
        if out is not None or script is not None or module:
            raise LowtideError("a run knows its own script", given=f"--resume {resume}", cure="give nothing else")
        directory, record = _resumed(resume, options)
    else:
        if out is None or script is None:
            cure = "lowtide train --out DIR SCRIPT begins a run, and lowtide train --resume DIR continues it"
            raise LowtideError("a run needs a directory and a script", cure=cure)
        directory, record = _begun(out, _script(script, arguments, module), options)
    return _train(directory, record, as_json=as_json)


def _options(
    budget: int | None, allow: tuple[str, ...], checkpoint_minutes: float | None, checkpoint_steps: int | None
) -> dict[str, Any]:
    """Return the options that were given, as fields of the record of a run."""
    if budget is not None and budget < _LEAST_BUDGET_BYTES:
        raise LowtideError("the allocator takes its limit in whole MiB", given=budget, cure="give 1MiB or more")
    options = {
        "budget_bytes": budget,
        "allow": tuple(dict.fromkeys(allow)) or None,
        "checkpoint_seconds": None if checkpoint_minutes is None else 60 * checkpoint_minutes,
        "checkpoint_steps": checkpoint_steps,
    }
    return {name: value for name, value in options.items() if value is not None}


def _script(target: str, arguments: tuple[str, ...], module: bool) -> Script:
    from lowtide.run.launch import Script

    if not module:
        check_script(target)
        if target == _STANDARD_INPUT:
            cure = "write the script to a file"
            raise LowtideError("a script from standard input cannot be started again", given=target, cure=cure)
    return Script(target, arguments, is_module=module)


def _begun(out: Path, script: Script, options: Mapping[str, Any]) -> tuple[RunDirectory, TrainingRecord]:
    """Begin a run in a directory, or continue the run of the same program there."""
    from lowtide.run.train.run_directory import RunDirectory, check_same_script, new_record

    directory = RunDirectory(out)
    if directory.exists and _has_trained(directory):
        check_same_script(out, directory.load(), script)
        return _resumed(out, options)
    is_new = not directory.exists
    if is_new:
        directory.check_is_free()
    directory.lock(with_children=True)
    record = new_record(script, **options)
    if is_new:
        directory.create(record)
    else:
        directory.begin(record)
    return directory, record


def _resumed(folder: Path, options: Mapping[str, Any]) -> tuple[RunDirectory, TrainingRecord]:
    """Continue a run; options replace those that it began with."""
    from lowtide.run.train.run_directory import RunDirectory

    directory = RunDirectory(folder)
    record = directory.load()
    if not Path(record.folder).is_dir():
        raise LowtideError("the folder that the run began in is gone", given=record.folder, cure="create it again")
    changes = directory.changes_since(record)
    directory.lock(with_children=True)
    if options:
        record = replace(record, **options)
        directory.update(record)
    _say(f"continuing the run in {folder}: {record.words}")
    if changes is not None:
        _say(f"warning: {changes}")
    return directory, record


def _has_trained(directory: RunDirectory) -> bool:
    from lowtide.run.train.history import TrainingStarted

    return any(isinstance(event, TrainingStarted) for event in directory.history.read())


def _train(directory: RunDirectory, record: TrainingRecord, *, as_json: bool) -> int:
    from lowtide.run.train.decisions import FINISHED
    from lowtide.run.train.history import RunEnded
    from lowtide.run.train.supervisor import train

    shortages: list[Shortage] = []
    try:
        before = directory.history.read()
        last = before[-1] if before else None
        is_finished = isinstance(last, RunEnded) and last.status == FINISHED and _has_trained(directory)
        # A script that was edited since may train for more epochs.
        if is_finished and directory.changes_since(record) is None:
            _say(f"the run in {directory.folder} is finished")
            code = 0
        else:
            lines = _Lines(directory.folder, before, as_json=as_json)
            code = train(
                directory,
                record,
                lines.show,
                recorder="lowtide.tf.train.script",
                stdout_to_stderr=as_json,
                on_shortage=shortages.append,
            )
    finally:
        directory.unlock()
    if as_json:
        click.echo(json.dumps(run_to_dict(directory, record, shortages), indent=2))
    elif shortages:
        from rich.console import Console

        from lowtide.view.terminal.shortage import TerminalShortage

        console = Console(stderr=True)
        for shortage in shortages:
            console.print(TerminalShortage(shortage))
    return code


def _say(line: str, before: str = "") -> None:
    """Print a line on standard error in one write, so that it never mixes with what the script prints."""
    name = click.style("lowtide", bold=True) if os.isatty(_STDERR) else "lowtide"
    # The training goes on if the reader of a pipe or the terminal is gone.
    with suppress(OSError):
        os.write(_STDERR, f"{before}{name}  {line}\n".encode(sys.stderr.encoding, "replace"))


class _Lines:
    """Shows events between the lines that the script prints."""

    def __init__(self, folder: Path, before: Sequence[Event], *, as_json: bool) -> None:
        from lowtide.run.launch import is_output_together
        from lowtide.run.train.narrator import Narrator

        self._narrator = Narrator(folder)
        for event in before:
            self._narrator.lines(event)
        self._is_running = False
        # Without a terminal, nothing but an end of line ends an incomplete line of the script in the same file.
        self._break = _CLEAR_LINE if os.isatty(_STDERR) else "\n" if as_json or is_output_together() else ""

    def show(self, event: Event) -> None:
        """Print what there is to say about an event."""
        from lowtide.run.train.history import AttemptEnded, AttemptStarted

        for line in self._narrator.lines(event):
            _say(line, self._break if self._is_running else "")
            if isinstance(event, AttemptEnded):
                self._is_running = False
        if isinstance(event, AttemptStarted):
            self._is_running = True
        elif isinstance(event, AttemptEnded):
            self._is_running = False


def run_to_dict(directory: RunDirectory, record: TrainingRecord, shortages: Sequence[Shortage] = ()) -> dict[str, Any]:
    """Return the run as plain data."""
    from lowtide.run.train.history import AttemptEnded, AttemptStarted, CheckpointWritten, Decided, EpochEnded, RunEnded

    history = directory.history.read()
    attempts: dict[int, dict[str, Any]] = {}
    data: dict[str, Any] = {
        "schema_version": 1,
        "run": str(directory.folder),
        "program": record.words,
        "budget_bytes": record.budget_bytes,
        "status": None,
        "exit_code": None,
        "steps_done": max((getattr(event, "steps_done", 0) for event in history), default=0),
        "checkpoint": None,
        "logs": {},
    }
    for event in history:
        attempt = attempts.setdefault(event.attempt, {"attempt": event.attempt})
        match event:
            case AttemptStarted():
                attempt |= {"budget_bytes": event.budget_bytes, "changes": list(event.changes)}
            case AttemptEnded():
                attempt |= {
                    "cause": event.cause,
                    "ending": event.words,
                    "exit_code": event.exit_code,
                    "signal": event.signal,
                    "seconds": round(event.seconds, 3),
                    "explanation": list(event.explanation),
                }
            case Decided():
                # One that led to this attempt, and one that ended the run after it.
                attempt.setdefault("decisions", []).append({"change": event.change, "reason": event.reason})
            case CheckpointWritten():
                data["checkpoint"] = event.name
            case EpochEnded():
                data["logs"] = event.logs
            case RunEnded():
                data |= {"status": event.status, "exit_code": event.exit_code}
    return {
        **data,
        "attempts": list(attempts.values()),
        "shortages": [shortage.to_dict() for shortage in shortages],
    }
