"""Runs the code before and after each fix, and compares what it computes."""

from __future__ import annotations

import ast
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common.processes import run_module
from benchmarks.common.report import Bar, Section
from lowtide.doctor.check import check_file
from lowtide.doctor.fixes import apply_edits
from lowtide.doctor.rule import Rule
from lowtide.doctor.rules import all_rules, examples

_SECONDS = 300


def measure_fixes() -> Section:
    """One row for each pair NAME.in.py and NAME.out.py; each file runs in a process of its own, two at a time."""
    pairs = [(rule, path) for rule in all_rules() for path in examples(rule, ".in.py")]
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda pair: _row(*pair), pairs))
    cells = [row for row, _ in rows]
    same = sum(holds for _, holds in rows)
    words = "every fix leaves code that parses, runs and computes the same"
    bars = [Bar(words, f"{same} of {len(rows)}", bool(rows) and same == len(rows))]
    notes = [
        "Computes the same: the variable `result`, compared bit for bit; else the largest relative deviation is given.",
        "A deviation of at most 1e-5 holds.",
    ]
    return Section("Fixes", ("rule", "example", "parses", "runs", "computes the same"), cells, bars, notes)


def _row(rule: Rule, before: Path) -> tuple[list[str], bool]:
    name = before.name.removesuffix(".in.py")
    text = before.read_text(encoding="utf-8")
    edits = [edit for each in check_file(before, [rule]) for edit in each.edits]
    fixed = apply_edits(text, edits)
    try:
        ast.parse(fixed)
    except SyntaxError as error:
        return [rule.code, name, f"no: {error.msg}", "n/a", "n/a"], False
    after = before.with_name(f"{name}.out.py")
    runs = [_run(path) for path in (before, after)]
    failed = [f"{each}: {run['failed']}" for each, run in zip(("in", "out"), runs, strict=True) if "failed" in run]
    parses = "yes" if fixed == after.read_text(encoding="utf-8") else "yes, but differs from the .out.py"
    if failed:
        return [rule.code, name, parses, "; ".join(failed), "n/a"], False
    same, holds = compare(runs[0]["result"], runs[1]["result"])
    return [rule.code, name, parses, "yes", same], holds and parses == "yes"


def _run(path: Path) -> dict[str, Any]:
    ended = run_module("benchmarks.doctor.children.execute", [str(path)], {}, _SECONDS)
    return {"failed": f"ended by {ended['crashed']}"} if "crashed" in ended else ended


def compare(before: Any, after: Any) -> tuple[str, bool]:
    """Whether two results are equal, in words; numbers may deviate by rounding."""
    if json.dumps(before) == json.dumps(after):
        return "bit for bit", True
    left, right = (list(_leaves(each)) for each in (before, after))
    if len(left) != len(right):
        return f"no: {len(left)} and {len(right)} values", False
    numbers = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    if not all(isinstance(each, (int, float)) for pair in numbers for each in pair):
        return "no: other values", False
    deviation = max(abs(a - b) / max(abs(a), abs(b)) for a, b in numbers)
    return f"{deviation:.0e}", deviation <= 1e-5


def _leaves(value: Any) -> Any:
    if isinstance(value, dict):
        for key in sorted(value):
            yield key
            yield from _leaves(value[key])
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value
