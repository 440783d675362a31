"""Frontiers: what other budgets would cost is simulated or marked as an estimate, and nothing simulated beats the plan.

python -m benchmarks.fit.frontier
python -m benchmarks.fit.frontier --only EfficientNetB0
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.common.processes import MEBIBYTE, run_module

RESULTS = Path(__file__).with_name("results")
# Target, batch size, and budgets: bytes, or shares of what a plain step takes on top of what is there before it.
CASES: tuple[tuple[str, int, tuple[str | float, ...]], ...] = (
    ("keras:EfficientNetB0", 8, ("300MiB", 0.7)),
    ("keras:ResNet50", 8, (0.8, 0.6)),
    ("keras:MobileNetV2", 16, (0.7, 0.5)),
    ("keras:DenseNet121", 8, (0.7, 0.5)),
    ("benchmarks.accuracy.answers:transformer", 16, (0.7, 0.5)),
    ("benchmarks.accuracy.answers:mlp", 4096, (0.8, 0.6)),
)


def examine(target: str, batch_size: int, budgets: tuple[str | float, ...]) -> list[dict[str, Any]]:
    """Return for each budget the plan, and the points of its frontier."""
    import lowtide as lt
    from lowtide.planning.plan import NoPlanError
    from lowtide.tf.trace.target import resolve_step
    from lowtide.units import parse_bytes

    model = resolve_step(target, batch_size).program
    tide = lt.predict(model, batch_size=batch_size)
    held = int(tide.curve.bytes_in_use[0])
    rows = []
    for budget in budgets:
        allowed = held + int(budget * (tide.safe_bytes - held)) if isinstance(budget, float) else parse_bytes(budget)
        try:
            plan = lt.plan(model, batch_size=batch_size, budget=allowed)
        except NoPlanError as error:
            rows.append({"budget": allowed, "peak": None, "slowdown": None, "points": _points(error.frontier)})
        else:
            points = _points(plan.frontier)
            rows.append({"budget": allowed, "peak": plan.peak_bytes, "slowdown": plan.slowdown, "points": points})
    return rows


def _points(frontier: Any) -> list[tuple[int, float, bool]]:
    return [(point.peak_bytes, point.slowdown, point.is_estimate) for point in frontier]


def better_points(row: dict[str, Any]) -> list[tuple[int, float]]:
    """Return the simulated points that are faster than the plan in no more memory, or within the budget of no plan."""
    simulated = [(peak, slowdown) for peak, slowdown, is_estimate in row["points"] if not is_estimate]
    if row["peak"] is None:
        return [point for point in simulated if point[0] <= row["budget"]]
    return [point for point in simulated if point[0] <= row["peak"] and point[1] < row["slowdown"] - 1e-9]


def to_markdown(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return one line per budget."""
    header = ["program", "budget, MiB", "plan, MiB", "slower", "simulated points", "estimates", "simulated and better"]
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    for name, rows in found.items():
        for row in rows:
            estimates = sum(is_estimate for _, _, is_estimate in row["points"])
            peak = "no plan" if row["peak"] is None else f"{row['peak'] / MEBIBYTE:.0f}"
            slower = "" if row["slowdown"] is None else f"{row['slowdown']:.1%}"
            counts = [len(row["points"]) - estimates, estimates, len(better_points(row))]
            cells = [name, f"{row['budget'] / MEBIBYTE:.0f}", peak, slower, *map(str, counts)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names of programs")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        options.output.write_text(json.dumps({"rows": examine(*CASES[options.child])}))
        return
    found = {}
    for number, (target, batch_size, _) in enumerate(CASES):
        if any(part in target for part in options.only):
            result = run_module("benchmarks.fit.frontier", ["--child", str(number)], {}, 3600.0)
            found[f"{target.rpartition(':')[2]}, batch {batch_size}"] = result.get("rows", [])
            print(to_markdown(found).splitlines()[-1] if "rows" in result else f"{target}: {result}", flush=True)
    if options.only == [""]:
        text = f"# Frontiers: simulated or marked, and nothing simulated beats the plan\n\n{to_markdown(found)}\n"
        (RESULTS / "frontier.md").write_text(text)


if __name__ == "__main__":
    main()
