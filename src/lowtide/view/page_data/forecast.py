"""What the page draws of a forecast, as plain data."""

from dataclasses import asdict
from typing import Any

from lowtide.units import format_bytes
from lowtide.view.axis import COLOURS
from lowtide.view.reports.answer_card import AnswerCard
from lowtide.view.reports.forecast import ForecastReport


def forecast_data(report: ForecastReport) -> dict[str, Any]:
    """Return the answers, the stages with what they hold, what to change, and the notes."""
    forecast = report.forecast
    consumer = {
        "name": "consumer",
        "depth": 0,
        "held_bytes": forecast.taken_bytes,
        "working_bytes": 0,
        "held_elements": forecast.taken_elements,
        "element_bytes": None,
        "is_sampled": False,
    }
    return {
        "title": f"{report.target} {report.headline}",
        "target": report.target,
        "answers": [asdict(answer) for answer in _answers(report)],
        "colours": {"held": COLOURS["input"], "working": COLOURS["workspace"]},
        "stages": [consumer, *({key: stage[key] for key in consumer} for stage in forecast.to_dict()["stages"])],
        "advice": [{"what": each.what, "saves_bytes": each.saves_bytes} for each in forecast.advice],
        "notes": forecast.notes,
    }


def _answers(report: ForecastReport) -> list[AnswerCard]:
    forecast = report.forecast
    answers = [
        AnswerCard("Peak", format_bytes(forecast.peak_bytes), "expected while the pipeline runs"),
        AnswerCard("At most", format_bytes(forecast.safe_bytes), "an upper bound"),
    ]
    if report.verdict is not None and report.budget_bytes is not None:
        value = "Fits" if report.fits else "Does not fit"
        answers.append(AnswerCard(f"In {format_bytes(report.budget_bytes)}", value, report.verdict, report.fits))
    return answers
