"""The predicted memory of pipelines, compared with the recorded memory."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.common.processes import allocator_environment, run_module
from benchmarks.common.report import Bar, Section, mebibytes, number
from benchmarks.feed.pipelines import PIPELINES

WITHIN = 0.10
LEAST = 12
ROUNDS = 1
AMPLE_BYTES = 16 << 30


def child(work: str, name: str, folder: Path, *more: str, allocator: bool = False) -> dict[str, Any]:
    """Run one process, with TensorFlow's allocator or with the C library's."""
    environment = allocator_environment(AMPLE_BYTES) if allocator else {}
    given = [work, "--way", name, "--folder", str(folder), *more]
    return run_module("benchmarks.feed.child", given, environment, 300)


def median(runs: list[dict[str, Any]], field: str) -> int | None:
    """The median of the runs; None if none of them finished."""
    seen = [run[field] for run in runs if field in run]
    return int(statistics.median(seen)) if seen else None


def prediction(folder: Path) -> Section:
    """A row for each pipeline."""
    cells, errors, unnamed, above = [], {}, [], []
    for name in PIPELINES:
        forecast = child("forecast", name, folder)
        own = [child("pipeline", name, folder, "--allocator", allocator=True) for _ in range(ROUNDS)]
        plain = [child("pipeline", name, folder)]
        recorded, allocated = median(own, "recorded_bytes"), median(own, "allocator_bytes")
        by_library = median(plain, "recorded_bytes")
        predicted = forecast.get("peak_bytes")
        error = None if predicted is None or recorded is None else predicted / recorded - 1
        errors[name] = error
        if any(stage["kind"] == "Variant" for stage in forecast.get("stages", [{"kind": "Variant"}])):
            unnamed.append(name)
        if predicted is not None and by_library is not None and by_library > forecast["safe_bytes"]:
            above.append(name)
        row = [
            mebibytes(predicted),
            mebibytes(recorded),
            "" if error is None else f"{error:+.1%}",
            mebibytes(allocated),
        ]
        row += [mebibytes(by_library), mebibytes(forecast.get("safe_bytes")), number(forecast.get("seconds"), 1)]
        cells.append([name.replace("_", " "), *row])
        print("  ", cells[-1], flush=True)
    return Section("Pipelines before they run", _COLUMNS, cells, _bars(errors, unnamed, above))


_COLUMNS = (
    "pipeline", "predicted", "recorded", "off by", "of that in the allocator", "with the C library's allocator",
    "safe bound", "seconds to predict",
)  # fmt: skip


def _bars(errors: dict[str, float | None], unnamed: list[str], above: list[str]) -> list[Bar]:
    within = [name for name, error in errors.items() if error is not None and abs(error) <= WITHIN]
    known = [abs(error) for error in errors.values() if error is not None]
    middle = f", {statistics.median(known):.1%} in the median" if known else ""
    return [
        Bar(
            f"within 10% of recorded host memory, on at least {LEAST} pipelines",
            f"{len(within)} of {len(errors)}{middle}",
            len(errors) >= LEAST and len(within) == len(errors),
        ),
        Bar("every stage is named", f"{len(errors) - len(unnamed)} of {len(errors)}", not unnamed),
        Bar(
            "with the C library's allocator never above the safe bound",
            f"{len(errors) - len(above)} of {len(errors)}",
            not above,
        ),
    ]
