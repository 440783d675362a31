"""lowtide explain FILE.tide, and lowtide explain BEFORE.tide AFTER.tide."""

from pathlib import Path

import click

from lowtide.cli.differences import check_one_form, difference_options, explain_two, only_file
from lowtide.cli.options import check_writable, report_options, space_option
from lowtide.units import Growth


@click.command()
@click.argument("files", nargs=-1, metavar="FILE | BEFORE AFTER", type=click.Path(path_type=Path))
@report_options
@space_option
@difference_options
def command(
    files: tuple[Path, ...],
    budget: int | None,
    top: int,
    as_json: bool,
    html: Path | None,
    svg: Path | None,
    force: bool,
    space: Path | None,
    max_growth: Growth | None,
    markdown: bool,
) -> int:
    """Show a saved tide again, or what changed between two, without TensorFlow.

    FILE is what tide.save() or lowtide predict --save wrote. With two of them: which layers grew.

    Exits 0, or 1 if the tide does not fit the budget or the peak grew by more than --max-growth.
    """
    check_one_form(as_json=as_json, markdown=markdown)
    check_writable([html, svg, space], force=force)
    if len(files) == 2:
        return explain_two(files, budget, top, max_growth, as_json=as_json, markdown=markdown, html=html, svg=svg)
    file = only_file(files, max_growth, markdown)
    from lowtide.cli.output import emit
    from lowtide.tide.tide import Tide
    from lowtide.view.report import Report

    return emit(Report(Tide.load(file), budget, top=top), as_json=as_json, html=html, svg=svg, space=space)
