"""Speed of planning: the seconds that `lt.plan` takes for a published model's step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.common.report import Bar, Section, mebibytes, number, percent
from benchmarks.fit.runs import Measured, Runs, start


@dataclass(frozen=True)
class Planning:
    """A model of keras.applications, or two of them as one; its batch, and how long planning may take."""

    model: str
    batch_size: int
    most_seconds: float


PLANNINGS = (Planning("ResNet50", 8, 10.0), Planning("EfficientNetV2L", 2, 120.0), Planning("towers", 2, 120.0))


@dataclass(frozen=True)
class SpeedRow:
    planning: Planning
    seen: Measured


def measure(planning: Planning, runs: Runs) -> SpeedRow:
    arguments = [planning.model, "--batch-size", str(planning.batch_size)]
    seen = runs.once(f"planning {planning.model}", lambda: start("planning", arguments), *arguments, by_lowtide=True)
    return SpeedRow(planning, seen)


COLUMNS = (
    "model", "nodes as traced", "as executed", "tracing, s", "Grappler, s", "planning, s",
    "safe before", "promised", "slower, as planned",
)  # fmt: skip


def report(rows: Sequence[SpeedRow]) -> Section:
    cells, bars = [], []
    for row in rows:
        seen, planning = row.seen, row.planning
        taken = seen.get("plan_seconds")
        cells.append(
            [
                f"{planning.model}, batch {planning.batch_size}, Adam",
                number(seen.get("traced_nodes"), 0),
                number(seen.get("executed_nodes"), 0),
                number(seen.get("trace_seconds"), 1),
                number(seen.get("grappler_seconds"), 1),
                number(taken, 1),
                mebibytes(seen.get("before_bytes")),
                mebibytes(seen.get("promised_bytes")),
                percent(seen.get("slowdown"), signed=True),
            ]
        )
        words = f"planning {planning.model}'s step takes at most {planning.most_seconds:.0f} s"
        figure = "no answer" if taken is None else f"{taken:.1f} s"
        bars.append(Bar(words, figure, taken is not None and taken <= planning.most_seconds))
    notes = [
        f"{row.planning.model}: {row.seen[reason]}"
        for row in rows
        for reason in ("refused", "failed", "crashed")
        if reason in row.seen
    ]
    return Section("Speed of planning", COLUMNS, cells, bars, notes)
