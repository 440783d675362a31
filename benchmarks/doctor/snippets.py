"""The examples beside the rules: each rule fires where it should, and nothing fires in good code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from benchmarks.common.report import Bar, Section
from lowtide.doctor.check import check_file
from lowtide.doctor.rule import Rule
from lowtide.doctor.rules import all_rules, examples

# What the issue asks for, of each kind.
AT_LEAST = 60


def count_parts(path: Path) -> int:
    """The snippets of a file: its parts between blank lines at the top level, without those that only import."""
    parts = re.split(r"\n\s*\n(?=\S)", path.read_text(encoding="utf-8").strip())
    return sum(not _only_imports(part) for part in parts)


def _only_imports(text: str) -> bool:
    return all(isinstance(each, (ast.Import, ast.ImportFrom)) for each in ast.parse(text).body)


def marked_lines(path: Path) -> set[int]:
    """The lines on which the rule must find something."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.rstrip().endswith("# bad")}


def measure_snippets() -> Section:
    rules = all_rules()
    cells = [_row(rule, rules) for rule in rules]
    marks, found, extra, good, flagged = (sum(int(row[at]) for row in cells) for at in (2, 3, 4, 5, 6))
    bars = [
        Bar(f"at least {AT_LEAST} bad snippets", str(marks), marks >= AT_LEAST),
        Bar(f"at least {AT_LEAST} good snippets", str(good), good >= AT_LEAST),
        Bar("every rule fires where it should", f"{found} of {marks}; {extra} elsewhere", found == marks and not extra),
        Bar("no good snippet is flagged, by any rule", f"{flagged} of {good}", flagged == 0),
    ]
    columns = ("rule", "name", "bad places", "found", "found elsewhere", "good snippets", "flagged")
    return Section("Snippets", columns, cells, bars)


def _row(rule: Rule, rules: tuple[Rule, ...]) -> list[str]:
    marks = found = extra = 0
    for path in examples(rule, ".bad.py"):
        wanted, seen = marked_lines(path), {each.line for each in check_file(path, [rule])}
        marks += len(wanted)
        found += len(wanted & seen)
        extra += len(seen - wanted)
    good = examples(rule, ".good.py")
    flagged = sum(len(check_file(path, rules)) for path in good)
    snippets = sum(count_parts(path) for path in good)
    return [rule.code, rule.name, *(str(each) for each in (marks, found, extra, snippets, flagged))]
