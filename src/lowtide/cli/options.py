"""Options and arguments that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lowtide.errors import LowtideError
from lowtide.units import parse_bytes

_Function = TypeVar("_Function", bound=Callable[..., Any])


def report_options(function: _Function) -> _Function:
    """Add the options that say what a report is asked, how it is shown and where it goes."""
    text = "Say whether it fits, say 8GiB or 1.5g."
    return click.option("--budget", type=parse_bytes, metavar="BYTES", help=text)(output_options("tensors")(function))


def output_options(listed: str) -> Callable[[_Function], _Function]:
    """Return what adds the options that say how a report is shown and where it goes; `listed` is what it lists."""

    def add(function: _Function) -> _Function:
        top = f"List N {listed}, not 10."
        for option in reversed(
            (
                click.option("--top", default=10, type=click.IntRange(min=0), metavar="N", help=top),
                click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else."),
                click.option(
                    "--html", type=file_path(), metavar="FILE", help="Write the report as one self-contained page."
                ),
                click.option("--svg", type=file_path(), metavar="FILE", help="Write the curve as a picture."),
                click.option("--force", is_flag=True, help="Overwrite files that exist."),
            )
        ):
            function = option(function)
        return function

    return add


def batch_size_option(function: _Function) -> _Function:
    """Add the option that says how many rows a batch of the target has."""
    text = "Rows in one batch; by default what the target itself says."
    return click.option("--batch-size", type=int, metavar="N", help=text)(function)


def check_batch_size(batch_size: int | None) -> None:
    """Refuse a batch of nothing."""
    if batch_size is not None and batch_size < 1:
        raise LowtideError("a batch needs at least one row", given=f"--batch-size {batch_size}", cure="give 1 or more")


def space_option(function: _Function) -> _Function:
    """Add the option that writes the address space, for the verbs whose tides may have been recorded."""
    text = "Write the address space of a recorded step as a picture."
    return click.option("--space", type=file_path(), metavar="FILE", help=text)(function)


def file_path() -> click.Path:
    """A file to be written."""
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
