"""lowtide doctor TARGET --live: builds the target, and reports the remedies for its memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lowtide.cli.options import check_batch_size
from lowtide.progress import Progress, ProgressCallback

if TYPE_CHECKING:
    from lowtide.planning.remedies.remedy import Examination
    from lowtide.tf.trace.target import Target


def examine(target: str, batch_size: int | None = None, budget: int | None = None, *, as_json: bool = False) -> int:
    """Build a target, print what holds its memory and what would save some of it, and return the exit code.

    The exit code is 1 if a change that keeps all results would save a notable share, or the target does not fit the
    budget; else 0.
    """
    check_batch_size(batch_size)
    from lowtide.cli.output import emit, progress_on_target
    from lowtide.tf.trace.target import resolve_target
    from lowtide.view.reports.remedies import RemedyReport
    from lowtide.view.terminal.remedies import TerminalRemedies

    with progress_on_target() as on_progress:
        on_progress(Progress(f"loading {target}"))
        found = resolve_target(target, batch_size)
        examination = _examine_data(found, on_progress) if found.is_data else _examine_step(found, on_progress)
    report = RemedyReport(examination, budget)
    emit(report.to_dict, lambda console: console.print(TerminalRemedies(report)), as_json=as_json)
    return 1 if examination.problems or report.fits is False else 0


def _examine_data(target: Target, on_progress: ProgressCallback) -> Examination:
    from lowtide.feed.forecast.predict import predict
    from lowtide.feed.forecast.remedies import pipeline_remedies
    from lowtide.planning.remedies.remedy import Examination, rank

    on_progress(Progress("looking at the stages of the pipeline"))
    forecast = predict(target.data or target.program)
    remedies = rank(pipeline_remedies(forecast), forecast.peak_bytes)
    return Examination(target.label, remedies, notes=forecast.notes, total_bytes=forecast.peak_bytes)


def _examine_step(target: Target, on_progress: ProgressCallback) -> Examination:
    from lowtide.planning.remedies.remedy import rank
    from lowtide.tf.remedies.examine import examine

    found = examine(
        target.program, *target.specs, batch_size=target.batch_size, progress=on_progress, label=target.label
    )
    if target.data is not None:
        data = _examine_data(target, on_progress)
        remedies = rank([*found.remedies, *data.remedies], found.total_bytes)
        found = replace(found, remedies=remedies, notes=(*found.notes, *data.notes))
    return replace(found, notes=(*target.notes, *found.notes))
