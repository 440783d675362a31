"""What the doctor found, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lowtide.doctor.checkup import Checkup
from lowtide.doctor.explanation import Explanation
from lowtide.doctor.problem import Mistake

JSON_SCHEMA_VERSION = 1


def checkup_to_dict(checkup: Checkup) -> dict[str, Any]:
    """Return the checkup with a `schema_version`."""
    return {
        "schema_version": JSON_SCHEMA_VERSION,
        "files": [str(path) for path in checkup.files],
        "problems": [_mistake_to_dict(each) for each in checkup.mistakes],
        "fixable": checkup.fixable,
    }


def rules_to_dict(rules: Sequence[Explanation]) -> dict[str, Any]:
    """Return explanations with a `schema_version`."""
    rows = [{**asdict(rule), "fixable": rule.is_fixable} for rule in rules]
    return {"schema_version": JSON_SCHEMA_VERSION, "rules": rows}


def _mistake_to_dict(mistake: Mistake) -> dict[str, Any]:
    return {
        "code": mistake.code,
        "path": str(mistake.path),
        "cell": mistake.cell,
        "line": mistake.line,
        "column": mistake.column,
        "end_line": mistake.end_line,
        "end_column": mistake.end_column,
        "message": mistake.message,
        "advice": mistake.advice,
        "fixable": mistake.is_fixable,
        "region": None if mistake.region is None else asdict(mistake.region),
        "edits": [{**asdict(each.region), "text": each.text} for each in mistake.replacements],
    }
