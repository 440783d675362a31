"""From measurements and predictions to the table: rows, their summary, Markdown and JSON."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.common.processes import MEBIBYTE
from benchmarks.common.report import number, percent

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Row:
    """The measured and predicted peaks of a configuration; None for a missing result."""

    name: str
    architecture: str
    measured_bytes: int | None = None
    lowest_bytes: int | None = None
    highest_bytes: int | None = None
    predicted_bytes: int | None = None
    safe_bytes: int | None = None
    method: str | None = None
    ran_out: bool | None = None
    grappler_bytes: int | None = None
    note: str | None = None

    @property
    def error(self) -> float | None:
        """The error of the prediction as a fraction of the measured peak; negative is too low."""
        return _deviation(self.predicted_bytes, self.measured_bytes)

    @property
    def grappler_error(self) -> float | None:
        return _deviation(self.grappler_bytes, self.measured_bytes)

    @property
    def safe_ratio(self) -> float | None:
        deviation = _deviation(self.safe_bytes, self.measured_bytes)
        return None if deviation is None else 1 + deviation

    @property
    def bound_ratio(self) -> float | None:
        """The bound as a multiple of the highest recorded step; below one, a step exceeded it."""
        deviation = _deviation(self.safe_bytes, self.highest_bytes)
        return None if deviation is None else 1 + deviation


def _deviation(predicted: int | None, measured: int | None) -> float | None:
    return None if predicted is None or not measured else predicted / measured - 1


@dataclass(frozen=True)
class Summary:
    """The figures that the benchmark is judged by; errors are absolute fractions."""

    configurations: int
    architectures: int
    measured: int
    predicted: int
    median_error: float | None
    percentile_95_error: float | None
    worst_error: float | None
    worst_name: str | None
    limited: int
    ran_out: int
    ran_out_fraction: float | None
    median_safe_ratio: float | None
    median_bound_ratio: float | None
    worst_bound_ratio: float | None
    exceeded: int
    grappler_answered: int
    grappler_median_error: float | None
    grappler_percentile_95_error: float | None


def percentile(values: Sequence[float], fraction: float) -> float | None:
    """Return the value below which `fraction` of the values are, interpolated between neighbours."""
    if not values:
        return None
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def summarise(rows: Sequence[Row]) -> Summary:
    """Summarise the rows; a row without a result is counted, but not in the errors."""
    errors = {row.name: abs(row.error) for row in rows if row.error is not None}
    grappler = [abs(row.grappler_error) for row in rows if row.grappler_error is not None]
    ratios = [row.safe_ratio for row in rows if row.safe_ratio is not None]
    bounds = [row.bound_ratio for row in rows if row.bound_ratio is not None]
    limited = [row.ran_out for row in rows if row.ran_out is not None]
    worst_name = max(errors, key=errors.__getitem__) if errors else None
    return Summary(
        configurations=len(rows),
        architectures=len({row.architecture for row in rows}),
        measured=sum(row.measured_bytes is not None for row in rows),
        predicted=len(errors),
        median_error=percentile(list(errors.values()), 0.5),
        percentile_95_error=percentile(list(errors.values()), 0.95),
        worst_error=None if worst_name is None else errors[worst_name],
        worst_name=worst_name,
        limited=len(limited),
        ran_out=sum(limited),
        ran_out_fraction=sum(limited) / len(limited) if limited else None,
        median_safe_ratio=statistics.median(ratios) if ratios else None,
        median_bound_ratio=statistics.median(bounds) if bounds else None,
        worst_bound_ratio=max(bounds, default=None),
        exceeded=sum(bound < 1.0 for bound in bounds),
        grappler_answered=len(grappler),
        grappler_median_error=percentile(grappler, 0.5),
        grappler_percentile_95_error=percentile(grappler, 0.95),
    )


def _mebibytes(value: int | None) -> str:
    return number(None if value is None else value / MEBIBYTE, 1)


def _percent(value: float | None, signed: bool = False) -> str:
    return percent(value, signed=signed, digits=1)


_COLUMNS = (
    "configuration", "measured", "lowest to highest", "predicted", "error", "method",
    "safe bound", "safe / measured", "ran out at the bound", "Grappler",
)  # fmt: skip


def _cells(row: Row) -> list[str]:
    span = "n/a"
    if row.lowest_bytes is not None and row.highest_bytes is not None:
        span = f"{_mebibytes(row.lowest_bytes)} to {_mebibytes(row.highest_bytes)}"
    return [
        row.name,
        _mebibytes(row.measured_bytes),
        span,
        _mebibytes(row.predicted_bytes),
        _percent(row.error, signed=True),
        row.method or "n/a",
        _mebibytes(row.safe_bytes),
        number(row.safe_ratio, 3),
        {None: "n/a", True: "yes", False: "no"}[row.ran_out],
        _mebibytes(row.grappler_bytes),
    ]


def summary_markdown(summary: Summary) -> str:
    """Return the summary as a small table, with TensorFlow's estimator beside lowtide."""
    worst = _percent(summary.worst_error)
    if summary.worst_name is not None:
        worst += f" ({summary.worst_name})"
    grappler_tail = _percent(summary.grappler_percentile_95_error)
    out = "n/a"
    if summary.ran_out_fraction is not None:
        out = f"{_percent(summary.ran_out_fraction)} ({summary.ran_out} of {summary.limited})"
    lines = [
        f"{summary.architectures} architectures, {summary.configurations} configurations, {summary.measured} measured.",
        "",
        "| | lowtide | TensorFlow's estimator |",
        "|---|---|---|",
        f"| answered | {summary.predicted} | {summary.grappler_answered} |",
        f"| median error | {_percent(summary.median_error)} | {_percent(summary.grappler_median_error)} |",
        f"| 95th percentile | {_percent(summary.percentile_95_error)} | {grappler_tail} |",
        f"| worst | {worst} | |",
        f"| `safe_bytes` as a limit ran out | {out} | |",
        f"| `safe_bytes` / measured, median | {number(summary.median_safe_ratio, 3)} | |",
        f"| `safe_bytes` / highest measured step, median | {number(summary.median_bound_ratio, 3)} | |",
        f"| `safe_bytes` / highest measured step, worst | {number(summary.worst_bound_ratio, 3)} | |",
        f"| configurations with a step above `safe_bytes` | {summary.exceeded} | |",
    ]
    return "\n".join(lines)


def to_markdown(rows: Sequence[Row], setting: dict[str, str]) -> str:
    """Return the whole report: where it was measured, the summary, one line per configuration."""
    described = ", ".join(f"{key} {value}" for key, value in setting.items())
    lines = [
        "# Predicted and measured peaks",
        "",
        f"Measured with {described}. Sizes are in MiB; a peak is the median over steady steps.",
        "",
        summary_markdown(summarise(rows)),
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|---" + "|---:" * (len(_COLUMNS) - 1) + "|",
        *("| " + " | ".join(_cells(row)) + " |" for row in rows),
    ]
    notes = [f"- {row.name}: {row.note}" for row in rows if row.note]
    if notes:
        lines += ["", "Without a result:", "", *notes]
    return "\n".join(lines) + "\n"


def to_json(rows: Sequence[Row], setting: dict[str, str]) -> str:
    """Return the report as JSON."""
    body = {
        "schema_version": SCHEMA_VERSION,
        "setting": setting,
        "summary": asdict(summarise(rows)),
        "rows": [{**asdict(row), "error": row.error, "safe_ratio": row.safe_ratio} for row in rows],
    }
    return json.dumps(body, indent=1) + "\n"
