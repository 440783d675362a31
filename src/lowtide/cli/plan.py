"""lowtide plan TARGET."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowtide.cli.options import batch_size_option, check_batch_size, check_writable, output_options
from lowtide.planning.allowance import ALLOWANCES
from lowtide.progress import Progress, ProgressCallback
from lowtide.units import parse_bytes

if TYPE_CHECKING:
    from lowtide.planning.measured_costs import MeasuredTimes
    from lowtide.planning.plan import NoPlanError, Plan


@click.command()
@click.argument("target")
@batch_size_option
@click.option("--budget", type=parse_bytes, required=True, metavar="BYTES", help="The limit, for example 3GiB.")
@click.option(
    "--allow",
    type=click.Choice(list(ALLOWANCES)),
    multiple=True,
    help="Allow a change of results; may be given more than once.",
)
@click.option("--exact", is_flag=True, help="Do not split the batch: results are the same bit for bit.")
@click.option(
    "--recorded",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take the times of ops from a .tide that lowtide run wrote.",
)
@output_options("actions")
@click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a .plan for lt.load_plan."
)
def command(
    target: str,
    batch_size: int | None,
    budget: int,
    allow: tuple[str, ...],
    exact: bool,
    recorded: Path | None,
    top: int,
    as_json: bool,
    html: Path | None,
    svg: Path | None,
    force: bool,
    save: Path | None,
) -> int:
    """Plan a training step so that it fits a budget, and show what that costs.

    TARGET is as for lowtide predict: file.py:name or package.module:name, where the name is a compiled
    Keras model, a function that returns one, or a function that returns (step, *specs); or keras:ResNet50.
    Changes that keep all results are tried first: another order, and rematerialization.

    Exits 0 if there is a plan or the step fits as it is, 1 if no plan fits, 2 on a usage error.
    """
    check_batch_size(batch_size)
    check_writable([html, svg, save], force=force)
    from lowtide.cli.output import looking_at_a_target
    from lowtide.cli.plans import emit_no_plan, emit_plan
    from lowtide.planning.measured_costs import measured_times
    from lowtide.planning.plan import NoPlanError
    from lowtide.view.reports.plan import PlanReport

    # A file that cannot be read is refused before TensorFlow is imported.
    times = measured_times(recorded)
    try:
        with looking_at_a_target() as tell:
            plan = _plan(target, batch_size, budget, allow, exact, times, tell)
    except NoPlanError as error:
        return emit_no_plan(error, target, as_json=as_json)
    if save is not None:
        plan.save(save)
    written = [] if save is None else [save]
    report = PlanReport(plan, top, None if save is None else str(save))
    return emit_plan(report, as_json=as_json, html=html, svg=svg, written=written)


def _plan(
    name: str,
    batch_size: int | None,
    budget: int,
    allow: tuple[str, ...],
    exact: bool,
    times: MeasuredTimes | None,
    tell: ProgressCallback,
) -> Plan:
    from lowtide.tf.trace.target import resolve_step

    tell(Progress(f"loading {name}"))
    target = resolve_step(name, batch_size)
    from lowtide.planning.plan import NoPlanError
    from lowtide.tf.plan.plan import plan

    try:
        found: Plan = plan(
            target.program,
            *target.specs,
            budget=budget,
            batch_size=target.batch_size,
            allow=allow,
            only="recompute" if exact else None,
            recorded=times,
            progress=tell,
            label=target.label,
        )
    except NoPlanError as error:
        _compute_frontier(error, tell)
        raise
    _compute_frontier(found, tell)
    # The specs of a target that is made for one batch size do not show which of their sizes it is.
    before, after = (replace(tide, batch_size=batch_size or tide.batch_size) for tide in (found.before, found.after))
    return replace(found, before=before, after=after, notes=target.notes + found.notes)


def _compute_frontier(answer: Plan | NoPlanError, tell: ProgressCallback) -> None:
    """Compute the frontier now, while progress is shown; the report needs it."""
    tell(Progress("looking at other budgets"))
    len(answer.frontier)
