"""Medians and the worst of several runs, as the table shows them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common.report import Bar
from benchmarks.explore.suite import MEGABYTE

Measured = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """One number of several runs."""

    median: float
    worst: float

    def words(self, scale: float = 1.0, digits: int = 0, unit: str = "") -> str:
        """The median, and the worst where it would be written in another way."""
        median, worst = (f"{value / scale:,.{digits}f}" for value in (self.median, self.worst))
        return (median if median == worst else f"{median} (worst {worst})") + (f" {unit}" if unit else "")


def figure(measured: Measured, name: str) -> Figure | None:
    """A number of all runs; None where a run has none, so that no bar holds by what is missing."""
    values = [run.get(name) for run in measured.get("runs", ())]
    if not values or None in values:
        return None
    return Figure(statistics.median(values), max(values))


def lowest(measured: Measured, name: str) -> Figure | None:
    """A number of which less is worse."""
    found = figure(measured, name)
    return None if found is None else Figure(found.median, min(run[name] for run in measured["runs"]))


def highest(measured: Measured, *names: str) -> Figure | None:
    """The highest of several numbers of each run."""
    runs = [[run.get(name) for name in names] for run in measured.get("runs", ())]
    if not runs or any(None in values for values in runs):
        return None
    tops = [max(values) for values in runs]
    return Figure(statistics.median(tops), max(tops))


def cell(found: Figure | None, scale: float = 1.0, digits: int = 0) -> str:
    return "n/a" if found is None else found.words(scale, digits)


def megabytes(found: Figure | None) -> str:
    return cell(found, MEGABYTE)


def seconds(found: Figure | None) -> str:
    """Milliseconds as seconds."""
    return cell(found, 1000, 2)


def bar(words: str, found: Figure | None, most: float, scale: float, unit: str, digits: int = 0) -> Bar:
    """The median is held to the bar; the worst stands beside it."""
    limit = f"{most / scale:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{most / scale:,.0f}"
    seen = "no answer" if found is None else found.words(scale, digits, unit)
    return Bar(f"{words} at most {limit} {unit}", seen, found is not None and found.median <= most)


def failures(rows: Sequence[tuple[str, Measured]]) -> list[str]:
    """Why there is no answer, for below the table."""
    return [f"{name}: {measured['failed']}" for name, measured in rows if "failed" in measured]


def disturbed(rows: Sequence[tuple[str, Measured]]) -> list[str]:
    """Where another browser ran meanwhile, which takes its share of the pages that both map."""
    names = [name for name, measured in rows if (highest(measured, "other_browsers") or Figure(0, 0)).worst > 0]
    return (
        [f"another browser ran meanwhile, so the browser's memory is not comparable: {', '.join(names)}"]
        if names
        else []
    )
