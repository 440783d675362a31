"""What each tuned number of planning buys: every program is planned with the number halved and doubled.

Only the memory model is used; nothing is trained. TensorFlow does not always list the nodes of a graph in the same
order, so plans of the same program differ a little from process to process; the baseline is planned twice to show this.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.report import percent, table
from benchmarks.fit.runs import start
from benchmarks.fit.suite import Case
from lowtide.planning.tuning import Tuning

COLUMNS = ("program", "number", "value", "tried", "plans found", "promised, of the budget", "slowdown")


def variations(name: str, value: Any) -> Iterator[Any]:
    """The other values to try for a number: half and double, or a shorter list."""
    if isinstance(value, tuple):
        yield value[:1]
    elif isinstance(value, int):
        yield from {value // 2, value * 2} - {value}
    else:
        yield from (value / 2, value * 2)


def measure(cases: Sequence[Case], numbers: Sequence[str]) -> Iterator[list[str]]:
    """A row for each program, number and value; numbers are fields of `Tuning`, or parts of their names."""
    fields = [field for field in dataclasses.fields(Tuning) if not numbers or any(n in field.name for n in numbers)]
    for case in cases:
        for number in ("baseline", "baseline again"):
            yield _row(case, number, "", "", start("ablating", [case.name]))
        for field in fields:
            for value in variations(field.name, field.default):
                print(f"ablate {case.name}: {field.name} = {value}", flush=True)
                varied = f"{field.name}={json.dumps(value)}"
                result = start("ablating", [case.name, "--vary", varied])
                yield _row(case, field.name, _text(field.default), _text(value), result)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _row(case: Case, number: str, value: str, tried: str, result: dict[str, Any]) -> list[str]:
    if "plans" not in result:
        reason = next((str(result[key]) for key in ("failed", "refused", "error") if key in result), "no result")
        return [case.name, number, value, tried, reason, "", ""]
    found = [plan for plan in result["plans"] if plan is not None]
    return [
        case.name,
        number,
        value,
        tried,
        f"{len(found)} of {len(result['plans'])}",
        percent(statistics.mean(plan["promised"] for plan in found), digits=1) if found else "",
        percent(statistics.mean(plan["slowdown"] for plan in found), signed=True, digits=1) if found else "",
    ]


def write(rows: Iterable[list[str]], path: Path, setting: str) -> None:
    """Write the table, row by row as it is measured: all of it takes hours."""
    done: list[list[str]] = []
    for row in rows:
        done.append(row)
        lines = ["# What each tuned number buys", "", __doc__ or "", setting, "", *table(COLUMNS, done), ""]
        path.write_text("\n".join(lines))
    print(f"written: {path}")
