"""lowtide predict TARGET."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowtide.cli.cached import Answers, answers_about, cache_option, print_origin
from lowtide.cli.differences import check_one_form, difference_options, emit_against, load_against
from lowtide.cli.options import batch_size_option, check_batch_size, check_writable, report_options
from lowtide.errors import LowtideError
from lowtide.progress import Progress, ProgressCallback
from lowtide.units import GrowthLimit

if TYPE_CHECKING:
    from lowtide.tf.trace.target import Target
    from lowtide.tide.tide import Tide
    from lowtide.view.reports.forecast import ForecastReport
    from lowtide.view.reports.tide import TideReport


@click.command()
@click.argument("target")
@batch_size_option
@report_options
@click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a .tide for lowtide explain."
)
@click.option(
    "--against", type=click.Path(path_type=Path), metavar="FILE", help="Show what changed since this .tide was saved."
)
@difference_options
@cache_option
def command(
    target: str,
    batch_size: int | None,
    budget: int | None,
    top: int,
    as_json: bool,
    html: Path | None,
    svg: Path | None,
    force: bool,
    save: Path | None,
    against: Path | None,
    max_growth: GrowthLimit | None,
    markdown: bool,
    no_cache: bool,
) -> int:
    """Predict the memory of a training step that has never run.

    TARGET is file.py:name or package.module:name, where the name is a compiled Keras model, a function
    that returns one, or a function that returns (step, *specs); or keras:ResNet50 for a model of
    keras.applications. It may also be a tf.data.Dataset, or a function that returns one: then the memory of each
    stage of the pipeline is predicted. --budget also finds the largest batch that is sure to fit. --against shows which
    layers grew since that tide was saved.

    Exits 0 if it fits or no budget was given, 1 if it does not fit or grew by more than --max-growth,
    2 on a usage error.
    """
    check_batch_size(batch_size)
    check_one_form(as_json=as_json, markdown=markdown)
    check_writable([html, svg, save], force=force)
    before = load_against(against, max_growth, markdown)
    from lowtide.cli.output import emit_forecast, emit_tide, progress_on_target

    forecast: ForecastReport | None = None
    with progress_on_target() as on_progress, answers_about(target, use=not no_cache) as answers:

        @cache
        def load() -> Target:
            return _resolve(target, batch_size, on_progress)

        if answers.needs_program and load().is_data:
            _check_no_tide(target, save, against)
            forecast = _forecast(load(), budget, on_progress)
        else:
            report = _predict(load, answers, batch_size, budget, top, on_progress)
    if forecast is not None:
        return emit_forecast(forecast, as_json=as_json, html=html, svg=svg)
    print_origin(answers)
    written = []
    if save is not None:
        report.tide.save(save)
        written.append(save)
    if before is None:
        return emit_tide(report, as_json=as_json, html=html, svg=svg, written=written)
    return emit_against(
        before, report, max_growth, as_json=as_json, markdown=markdown, html=html, svg=svg, written=written
    )


def _resolve(name: str, batch_size: int | None, on_progress: ProgressCallback) -> Target:
    from lowtide.tf.trace.target import resolve_target

    on_progress(Progress(f"loading {name}"))
    return resolve_target(name, batch_size)


def _check_no_tide(name: str, save: Path | None, against: Path | None) -> None:
    if save is not None or against is not None:
        option = "--save" if save is not None else "--against"
        raise LowtideError("the target is a dataset, and has no tide", given=name, cure=f"leave {option} out")


def _forecast(target: Target, budget: int | None, on_progress: ProgressCallback) -> ForecastReport:
    from lowtide.feed.forecast.predict import predict
    from lowtide.view.reports.forecast import ForecastReport

    on_progress(Progress("looking at the stages"))
    return ForecastReport(predict(target.program), target.label, budget)


def _predict(
    load: Callable[[], Target],
    answers: Answers,
    batch_size: int | None,
    budget: int | None,
    top: int,
    on_progress: ProgressCallback,
) -> TideReport:
    from lowtide.tide import storage
    from lowtide.tide.tide import Tide
    from lowtide.view.reports.tide import LargestBatch, TideReport

    if answers.needs_program:
        answers.identify(load())
    tide = answers.find_or(
        lambda: _predict_tide(load(), batch_size, on_progress),
        storage.to_bytes,
        lambda content: storage.from_bytes(content, "the cache", Tide),
        "tide",
        batch_size,
    )
    largest = None
    if budget is not None:
        found = answers.find_or(
            lambda: _find_largest(load(), budget, on_progress),
            lambda answer: json.dumps(answer).encode(),
            json.loads,
            "largest",
            batch_size,
            budget,
        )
        largest = None if found is None else LargestBatch(*found)
    return TideReport(tide, budget, largest, top)


def _predict_tide(target: Target, batch_size: int | None, on_progress: ProgressCallback) -> Tide:
    from lowtide.tf.trace.predict import predict

    tide = predict(target.program, *target.specs, batch_size=target.batch_size, progress=on_progress)
    return replace(tide, target=target.label, batch_size=batch_size or tide.batch_size, notes=target.notes + tide.notes)


def _find_largest(target: Target, budget: int, on_progress: ProgressCallback) -> tuple[int, int | None] | None:
    """Return the largest batch and its safe bound; None if the program can only be built for one size."""
    from lowtide.tf.trace.predict import max_batch_size

    opened = target.with_open_batch()
    if opened is None:
        return None
    on_progress(Progress("looking for the largest batch"))
    answer = max_batch_size(opened.program, *opened.specs, budget=budget, progress=on_progress)
    return answer.batch_size, answer.safe_bytes if answer.batch_size else None
