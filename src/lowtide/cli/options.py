"""Options and arguments that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lowtide.errors import LowtideError
from lowtide.units import parse_bytes

_Function = TypeVar("_Function", bound=Callable[..., Any])


def report_options(function: _Function) -> _Function:
    """Add --budget and the options of `output_options`."""
    text = "Check whether it fits, for example 8GiB or 1.5g."
    return click.option("--budget", type=parse_bytes, metavar="BYTES", help=text)(output_options("tensors")(function))


def output_options(listed: str) -> Callable[[_Function], _Function]:
    """Return a decorator that adds the output options of a report; `listed` names the rows that --top counts."""

    def add(function: _Function) -> _Function:
        top = f"List N {listed}, not 10."
        for option in reversed(
            (
                click.option("--top", default=10, type=click.IntRange(min=0), metavar="N", help=top),
                click.option("--json", "as_json", is_flag=True, help="Print only JSON."),
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
    """Add --batch-size."""
    text = "Rows in one batch; by default that of the target."
    return click.option("--batch-size", type=int, metavar="N", help=text)(function)


def check_batch_size(batch_size: int | None) -> None:
    """Refuse an empty batch."""
    if batch_size is not None and batch_size < 1:
        raise LowtideError("a batch needs at least one row", given=f"--batch-size {batch_size}", cure="give 1 or more")


def space_option(function: _Function) -> _Function:
    """Add --space, for verbs whose tides may be recorded."""
    text = "Write the address space of a recorded step as a picture."
    return click.option("--space", type=file_path(), metavar="FILE", help=text)(function)


def file_path() -> click.Path:
    """Return the type of an option that names a file to write."""
    return click.Path(dir_okay=False, path_type=Path)


def check_writable(paths: list[Path | None], *, force: bool) -> None:
    """Refuse files that cannot be written before any time is spent on the result."""
    for path in paths:
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise LowtideError("the folder to write to does not exist", given=path, cure="create it, or choose another")
        if path.exists() and not force:
            raise LowtideError("will not overwrite a file", given=path, cure="remove it, or add --force")
