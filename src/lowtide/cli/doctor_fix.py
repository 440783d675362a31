"""lowtide doctor --fix: shows the corrections of the doctor, asks, and writes them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.console import Console

from lowtide.doctor.checkup import Checkup, check_files
from lowtide.doctor.correction import correct_file
from lowtide.errors import LowtideError
from lowtide.units import format_count
from lowtide.view.doctor.diff import render_diff

if TYPE_CHECKING:
    from lowtide.doctor.checkup import Task
    from lowtide.doctor.correction import Correction


def fix(checkup: Checkup, tasks: Sequence[Task], *, is_agreed: bool) -> tuple[Checkup, bool]:
    """Show a diff, ask unless that `is_agreed`, and write; returns what is left, and whether a correction failed."""
    corrections, has_failed = _correct(checkup, tasks)
    console = Console()
    for correction in corrections:
        for line in render_diff(correction.diff()):
            console.print(line, soft_wrap=True)
    if corrections and not is_agreed and not _ask(corrections):
        return checkup, has_failed
    written = [each for each in corrections if _write(each)]
    if not written:
        return checkup, has_failed or bool(corrections)
    click.echo(f"corrected {_describe(written)}")
    changed = {each.path for each in written}
    again = check_files([task for task in tasks if task[0] in changed])
    order = {path: number for number, (path, _) in enumerate(tasks)}
    left = [*(each for each in checkup.mistakes if each.path not in changed), *again.mistakes]
    left.sort(key=lambda each: order[each.path])
    return Checkup(checkup.files, tuple(left)), has_failed or len(written) < len(corrections)


def _correct(checkup: Checkup, tasks: Sequence[Task]) -> tuple[list[Correction], bool]:
    """Return the corrections of the files with fixable mistakes, and whether one of them failed."""
    fixable = {each.path for each in checkup.mistakes if each.is_fixable}
    corrections, has_failed = [], False
    for path, settings in tasks:
        if path not in fixable:
            continue
        try:
            correction = correct_file(path, settings)
        except LowtideError as error:
            click.echo(f"warning: {error.command_line()}", err=True)
            has_failed = True
        else:
            corrections += [] if correction is None else [correction]
    return corrections, has_failed


def _ask(corrections: Sequence[Correction]) -> bool:
    """Ask whether to write, if there is anyone to ask."""
    what = _describe(corrections)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(f"nothing is changed: --fix --yes corrects {what} without asking", err=True)
        return False
    if click.confirm(f"correct {what}?", default=False):
        return True
    click.echo("nothing is changed")
    return False


def _describe(corrections: Sequence[Correction]) -> str:
    count = sum(each.count for each in corrections)
    return f"{format_count(count, 'problem')} in {format_count(len(corrections), 'file')}"


def _write(correction: Correction) -> bool:
    try:
        correction.write()
    except LowtideError as error:
        click.echo(f"warning: {error.command_line()}", err=True)
        return False
    return True
