"""Options and arguments that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lowtide.errors import LowtideError
from lowtide.units import parse_bytes

_Function = TypeVar("_Function", bound=Callable[..., Any])


def report_options(function: _Function) -> _Function:
    """Add the options that say how a report is shown and where it goes."""
    for option in reversed(
        (
            click.option("--budget", type=parse_bytes, metavar="BYTES", help="Say whether it fits, say 8GiB or 1.5g."),
            click.option("--top", default=10, type=click.IntRange(min=0), metavar="N", help="List N tensors, not 10."),
            click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else."),
            click.option("--html", type=_file(), metavar="FILE", help="Write the report as one self-contained page."),
            click.option("--svg", type=_file(), metavar="FILE", help="Write the curve as a picture."),
            click.option("--force", is_flag=True, help="Overwrite files that exist."),
        )
    ):
        function = option(function)
    return function


def space_option(function: _Function) -> _Function:
    """Add the option that writes the address space, for the verbs whose tides may have been recorded."""
    text = "Write the address space of a recorded step as a picture."
    return click.option("--space", type=_file(), metavar="FILE", help=text)(function)


def _file() -> click.Path:
    return click.Path(dir_okay=False, path_type=Path)


def check_writable(paths: list[Path | None], *, force: bool) -> None:
    """Refuse what could not be written before any time is spent on finding what to write."""
    for path in paths:
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise LowtideError("the folder to write to does not exist", given=path, cure="create it, or choose another")
        if path.exists() and not force:
            raise LowtideError("will not overwrite a file", given=path, cure="remove it, or add --force")
