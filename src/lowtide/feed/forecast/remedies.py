"""The advice about a pipeline as remedies."""

from __future__ import annotations

from lowtide.feed.forecast.forecast import Forecast
from lowtide.planning.remedies.remedy import FORECAST, PROCESS, Remedy
from lowtide.units import format_bytes


def pipeline_remedies(forecast: Forecast) -> list[Remedy]:
    """Return the changes of a pipeline that save memory of the process; each is for the pipeline as it is."""
    holdings = sorted(forecast.holdings, key=lambda each: -each.bytes)
    largest = ", ".join(f"{each.name} {format_bytes(each.bytes)}" for each in holdings[:3] if each.bytes)
    problem = f"the input pipeline holds {format_bytes(forecast.peak_bytes)}: {largest}"
    return [
        Remedy("pipeline", problem, each.what, each.saves_bytes, PROCESS, changes=each.changes, method=FORECAST)
        for each in forecast.advice
    ]
