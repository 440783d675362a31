"""lowtide explain FILE: a saved tide, or the log of a run that went out of memory."""

from pathlib import Path

import click

from lowtide.cli.logs import explain_log, is_log
from lowtide.cli.options import check_writable, report_options
from lowtide.errors import LowtideError


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@report_options
def command(
    file: Path, budget: int | None, top: int, as_json: bool, html: Path | None, svg: Path | None, force: bool
) -> int:
    """Show a saved tide again, or explain a log in which memory ran out; without TensorFlow.

    FILE is what tide.save() or lowtide predict --save wrote; or a log of any TensorFlow, also compressed
    with gzip, or - for standard input: what was asked for, what held the memory, why it was not enough, and
    what to do.

    Exits 0; 1 if the tide does not fit the budget, or memory ran out in the log; 2 on a usage error.
    """
    check_writable([html, svg], force=force)
    if is_log(file):
        if budget is not None or svg is not None:
            given = "--svg" if budget is None else "--budget"
            raise LowtideError(
                "a log has no curve and no budget", given=given, cure="leave it out, or give a .tide file"
            )
        return explain_log(file, top, as_json=as_json, html=html)
    from lowtide.cli.output import emit
    from lowtide.tide.tide import Tide
    from lowtide.view.report import Report

    return emit(Report(Tide.load(file), budget, top=top), as_json=as_json, html=html, svg=svg)
