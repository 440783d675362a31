"""Runs the code before and after each fix, and compares what it computes."""

from __future__ import annotations

import ast
import re
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
_LARGEST_DEVIATION = 1e-5
_NUMBER = re.compile(r"(-?\d+(?:\.\d*)?(?:e[-+]?\d+)?)")


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
        "Both files run with the same seeds in processes of their own, and what they print is compared.",
        f"Of numbers the largest relative deviation is given; one of at most {_LARGEST_DEVIATION:.0e} holds.",
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
    same, holds = compare(runs[0]["printed"], runs[1]["printed"])
    return [rule.code, name, parses, "yes", same], holds and parses == "yes"


def _run(path: Path) -> dict[str, Any]:
    ended = run_module("benchmarks.doctor.children.execute", [str(path)], {}, _SECONDS)
    return {"failed": f"ended by {ended['crashed']}"} if "crashed" in ended else ended


def compare(before: str, after: str) -> tuple[str, bool]:
    """Whether two programs have printed the same, in words; numbers may deviate by rounding."""
    if not before.strip():
        return "no: it prints nothing", False
    if before == after:
        return "to the last digit", True
    left, right = (_NUMBER.split(text) for text in (before, after))
    if len(left) != len(right) or left[::2] != right[::2]:
        return "no: other texts", False
    pairs = [(float(a), float(b)) for a, b in zip(left[1::2], right[1::2], strict=True)]
    deviation = max(abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in pairs)
    return f"deviates by {deviation:.0e}", deviation <= _LARGEST_DEVIATION
