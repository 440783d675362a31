"""lowtide explain FILE: a tide, a plan, a log in which memory ran out, a training run, or two tides to compare."""

from pathlib import Path

import click

from lowtide.cli.differences import check_one_form, difference_options, explain_two, only_file
from lowtide.cli.logs import explain_log, is_log
from lowtide.cli.options import check_writable, report_options, space_option
from lowtide.cli.training_runs import explain_training_run, is_training_run
from lowtide.errors import LowtideError
from lowtide.units import GrowthLimit


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
    max_growth: GrowthLimit | None,
    markdown: bool,
) -> int:
    """Show a saved tide or plan again, explain a log or a training run, or compare two tides; without TensorFlow.

    FILE is a file that tide.save(), plan.save() or --save of another verb wrote; or a log of any TensorFlow version,
    also compressed with gzip, or - for standard input. A log is explained: what was requested, which buffers held the
    memory, why it was not enough, and what to do. Of the directory of lowtide train, the attempts are shown, what ended
    each, and what was changed. Two tides, BEFORE and AFTER, are compared: which layers grew.

    Exits 0; 1 if the tide does not fit the budget, the peak grew by more than --max-growth, memory ran out in the log,
    or the training run was given up; 2 on a usage error, or if no message of the log says that memory ran out.
    """
    check_one_form(as_json=as_json, markdown=markdown)
    check_writable([html, svg, space], force=force)
    if len(files) == 2:
        return explain_two(files, budget, top, max_growth, as_json=as_json, markdown=markdown, html=html, svg=svg)
    file = only_file(files, max_growth, markdown)
    if is_training_run(file):
        asked = _first_given(("--budget", budget), ("--svg", svg), ("--space", space))
        return explain_training_run(file, asked=asked, as_json=as_json, html=html)
    if is_log(file):
        given = _first_given(("--budget", budget), ("--svg", svg), ("--space", space))
        if given is not None:
            raise LowtideError(
                "a log has no curve and no budget", given=given, cure="leave it out, or give a .tide file"
            )
        return explain_log(file, top, as_json=as_json, html=html)
    from lowtide.planning.storage import is_plan

    if is_plan(file):
        from lowtide.cli.plans import explain_plan

        asked = _first_given(("--budget", budget), ("--space", space))
        return explain_plan(file, top, asked=asked, as_json=as_json, html=html, svg=svg)
    from lowtide.cli.output import emit_tide
    from lowtide.tide.tide import Tide
    from lowtide.view.reports.tide import TideReport

    return emit_tide(TideReport(Tide.load(file), budget, top=top), as_json=as_json, html=html, svg=svg, space=space)


def _first_given(*options: tuple[str, object]) -> str | None:
    return next((name for name, value in options if value), None)
