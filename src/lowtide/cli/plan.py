"""lowtide plan TARGET."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowtide.cache.dependencies import state_of
from lowtide.cli.cached import answers_about, cache_option, print_origin
from lowtide.cli.options import batch_size_option, check_batch_size, check_writable, output_options
from lowtide.planning.allowance import ALLOWANCES
from lowtide.progress import Progress, ProgressCallback
from lowtide.units import parse_bytes

if TYPE_CHECKING:
    from lowtide.planning.measured_costs import MeasuredTimes
    from lowtide.planning.plan import NoPlanError, Plan
    from lowtide.tf.trace.target import Target


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
@cache_option
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
    no_cache: bool,
) -> int:
    """Plan a training step so that it fits a budget, and show what that costs.

    TARGET is as for lowtide predict: file.py:name or package.module:name, where the name is a compiled
    Keras model, a function that returns one, or a function that returns (step, *specs); or keras:ResNet50.
    Changes that keep all results are tried first: another order, and rematerialization.

    Exits 0 if there is a plan or the step fits as it is, 1 if no plan fits, 2 on a usage error.
    """
    check_batch_size(batch_size)
    check_writable([html, svg, save], force=force)
    from lowtide.cli.output import progress_on_target
    from lowtide.cli.plans import emit_no_plan, emit_plan
    from lowtide.planning.measured_costs import measured_times
    from lowtide.planning.plan import NoPlanError, Plan
    from lowtide.view.reports.plan import PlanReport

    # A file that cannot be read is refused before TensorFlow is imported.
    times = measured_times(recorded)
    try:
        with progress_on_target() as on_progress, answers_about(target, use=not no_cache) as answers:

            @cache
            def load() -> Target:
                return _load(target, batch_size, on_progress)

            if answers.needs_program:
                answers.identify(load())
            plan = answers.find_or(
                lambda: _plan(load(), batch_size, budget, allow, exact, times, on_progress),
                Plan.to_bytes,
                lambda content: Plan.from_bytes(content, "the cache"),
                *("plan", batch_size, budget, sorted(allow), exact, recorded and state_of(str(recorded))),
            )
    except NoPlanError as error:
        return emit_no_plan(error, target, as_json=as_json)
    print_origin(answers)
    if save is not None:
        plan.save(save)
    written = [] if save is None else [save]
    report = PlanReport(plan, top, None if save is None else str(save))
    return emit_plan(report, as_json=as_json, html=html, svg=svg, written=written)


def _load(name: str, batch_size: int | None, on_progress: ProgressCallback) -> Target:
    from lowtide.tf.trace.target import resolve_step

    on_progress(Progress(f"loading {name}"))
    return resolve_step(name, batch_size)


def _plan(
    target: Target,
    batch_size: int | None,
    budget: int,
    allow: tuple[str, ...],
    exact: bool,
    times: MeasuredTimes | None,
    on_progress: ProgressCallback,
) -> Plan:
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
            progress=on_progress,
            label=target.label,
        )
    except NoPlanError as error:
        _compute_frontier(error, on_progress)
        raise
    _compute_frontier(found, on_progress)
    # The specs of a target that is made for one batch size do not show which of their sizes it is.
    before, after = (replace(tide, batch_size=batch_size or tide.batch_size) for tide in (found.before, found.after))
    return replace(found, before=before, after=after, notes=target.notes + found.notes)


def _compute_frontier(answer: Plan | NoPlanError, on_progress: ProgressCallback) -> None:
    """Compute the frontier now, while progress is shown; the report needs it."""
    on_progress(Progress("looking at other budgets"))
    len(answer.frontier)
