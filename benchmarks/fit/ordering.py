"""Order alone: the same peak in every step, never above the plain median, in the plain time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.common.report import Bar, Section, mebibytes, percent
from benchmarks.fit.cost import CostRow
from benchmarks.fit.runs import UNSTEADY, Measured, Runs
from benchmarks.fit.suite import ORDERED, Case

MOST_SPREAD, MOST_SLOWDOWN = 0.005, 0.03


@dataclass(frozen=True)
class OrderRow:
    """One case: steps in the planned order beside plain steps."""

    case: Case
    plain: Measured
    ordered: Measured
    cost: CostRow | None = None
    """Where both were timed in turn."""

    @property
    def slowdown(self) -> float | None:
        return None if self.cost is None else self.cost.race.slowdown(self.cost.race.lane(ORDERED))

    @property
    def above_plain(self) -> float | None:
        """The highest ordered peak against the plain median: what is taken on top of what is there before."""
        plain, ordered = steady(self.plain), steady(self.ordered)
        return max(ordered) / statistics.median(plain) - 1 if plain and ordered else None


def steady(result: Measured) -> list[int]:
    """The peaks of steps that find a settled allocator."""
    peaks: list[int] = result.get("peaks", [])
    return peaks[UNSTEADY:]


def spread(result: Measured) -> float | None:
    peaks = steady(result)
    return (max(peaks) - min(peaks)) / statistics.median(peaks) if peaks else None


def measure(case: Case, runs: Runs, cost: CostRow | None) -> OrderRow:
    return OrderRow(case, runs.reference(case), runs.train(case, ORDERED, "alone", by_lowtide=True), cost)


COLUMNS = ("program", "plain, median", "plain spread", "ordered, highest", "ordered spread", "against plain", "slower")


def report(rows: Sequence[OrderRow]) -> Section:
    cells = [
        [
            row.case.name,
            mebibytes(statistics.median(steady(row.plain))) if steady(row.plain) else "n/a",
            percent(spread(row.plain), digits=2),
            mebibytes(max(steady(row.ordered), default=None)),
            percent(spread(row.ordered), digits=2),
            percent(row.above_plain, signed=True, digits=1),
            percent(row.slowdown, signed=True, digits=1),
        ]
        for row in rows
    ]
    notes = [
        f"{row.case.name}: {row.ordered[reason]}"
        for row in rows
        for reason in ("refused", "failed")
        if reason in row.ordered
    ]
    return Section("Order alone", COLUMNS, cells, _bars(rows), notes)


def _bars(rows: Sequence[OrderRow]) -> list[Bar]:
    whole = len(rows)
    even = sum((found := spread(row.ordered)) is not None and found <= MOST_SPREAD for row in rows)
    low = sum(row.above_plain is not None and row.above_plain <= 0 for row in rows)
    quick = sum(row.slowdown is not None and row.slowdown <= MOST_SLOWDOWN for row in rows)
    spreads = [found for row in rows if (found := spread(row.plain)) is not None]
    among = f" (plain {min(spreads):.1%} to {max(spreads):.1%})" if spreads else ""
    return [
        Bar(
            f"order alone: peaks spread by at most {MOST_SPREAD:.1%}",
            f"{even} of {whole} programs{among}",
            even == whole,
        ),
        Bar("order alone: never above the plain median", f"{low} of {whole} programs", low == whole),
        Bar(f"order alone: within {MOST_SLOWDOWN:.0%} of the plain time", f"{quick} of {whole}", quick == whole),
    ]
