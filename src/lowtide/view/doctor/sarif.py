"""What the doctor found, in the Static Analysis Results Interchange Format 2.1.0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowtide.doctor.check import UNREADABLE
from lowtide.doctor.checkup import Checkup
from lowtide.doctor.explanation import Explanation
from lowtide.doctor.problem import FileRegion, Mistake
from lowtide.view.doctor.paths import uri_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"


def render_sarif(checkup: Checkup, rules: Sequence[Explanation], version: str, site: str | None) -> dict[str, Any]:
    """Return the log of one run; `site` is the address of the documentation, None if it has none."""
    numbers = {rule.code: number for number, rule in enumerate(rules)}
    driver: dict[str, Any] = {
        "name": "lowtide doctor",
        "semanticVersion": version,
        "rules": [_rule(rule, site) for rule in rules],
    }
    if site is not None:
        driver["informationUri"] = f"{site}/doctor/"
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
        "artifacts": [{"location": _location(path)} for path in checkup.files],
        "results": [_result(each, numbers) for each in checkup.mistakes],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Explanation, site: str | None) -> dict[str, Any]:
    found = {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in re.findall(r"\w+", rule.name)),
        "shortDescription": {"text": rule.name},
        "fullDescription": {"text": " ".join(rule.text.strip().partition("\n\n")[0].split())},
        "help": {"text": rule.to_markdown(), "markdown": rule.to_markdown()},
        "defaultConfiguration": {"level": _level(rule.code)},
        "properties": {"tags": ["memory", "tensorflow"]},
    }
    return found if site is None else {**found, "helpUri": f"{site}/doctor/{rule.code}/"}


def _result(mistake: Mistake, numbers: dict[str, int]) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _location(mistake.path)}
    if mistake.region is not None:
        physical["region"] = _region(mistake.region)
        if mistake.excerpt and mistake.cell is None and mistake.region.line == mistake.region.end_line:
            physical["contextRegion"] = {"startLine": mistake.region.line, "snippet": {"text": mistake.excerpt}}
    location: dict[str, Any] = {"physicalLocation": physical}
    if mistake.cell is not None:
        location["logicalLocations"] = [{"name": f"cell {mistake.cell}", "kind": "module"}]
    result: dict[str, Any] = {
        "ruleId": mistake.code,
        "ruleIndex": numbers[mistake.code],
        "level": _level(mistake.code),
        "message": {"text": _message(mistake)},
        "locations": [location],
    }
    if mistake.replacements:
        result["fixes"] = [_fix(mistake)]
    return result


def _message(mistake: Mistake) -> str:
    cell = "" if mistake.cell is None else f"Cell {mistake.cell}, line {mistake.line}: "
    return f"{cell}{mistake.message}. {mistake.advice[:1].upper()}{mistake.advice[1:]}."


def _fix(mistake: Mistake) -> dict[str, Any]:
    replacements = [
        {"deletedRegion": _region(each.region), "insertedContent": {"text": each.text}} for each in mistake.replacements
    ]
    change = {"artifactLocation": _location(mistake.path), "replacements": replacements}
    return {"description": {"text": mistake.advice}, "artifactChanges": [change]}


def _region(region: FileRegion) -> dict[str, int]:
    return {
        "startLine": region.line,
        "startColumn": region.column,
        "endLine": region.end_line,
        "endColumn": region.end_column,
    }


def _location(path: Path) -> dict[str, str]:
    uri, is_relative = uri_of(path)
    return {"uri": uri, "uriBaseId": _ROOT} if is_relative else {"uri": uri}


def _level(code: str) -> str:
    return "error" if code == UNREADABLE else "warning"
