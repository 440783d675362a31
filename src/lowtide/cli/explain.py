"""lowtide explain FILE.tide."""

from pathlib import Path

import click

from lowtide.cli.options import check_writable, report_options, space_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@report_options
@space_option
def command(
    file: Path,
    budget: int | None,
    top: int,
    as_json: bool,
    html: Path | None,
    svg: Path | None,
    force: bool,
    space: Path | None,
) -> int:
    """Show a saved tide again, without TensorFlow.

    FILE is what tide.save() or lowtide predict --save wrote.
    """
    check_writable([html, svg, space], force=force)
    from lowtide.cli.output import emit
    from lowtide.tide.tide import Tide
    from lowtide.view.report import Report

    return emit(Report(Tide.load(file), budget, top=top), as_json=as_json, html=html, svg=svg, space=space)
