"""What the doctor found, as commands of GitHub Actions, which shows them beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Mapping

from lowtide.doctor.check import UNREADABLE
from lowtide.doctor.checkup import Checkup
from lowtide.doctor.problem import Mistake
from lowtide.view.doctor.paths import relative_path

_IN_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_IN_DATA, ":": "%3A", ",": "%2C"}


def render_github(checkup: Checkup, names: Mapping[str, str]) -> str:
    """Return a line for each problem; `names` has the name of each rule by its code."""
    return "".join(f"{_annotation(each, names.get(each.code, ''))}\n" for each in checkup.mistakes)


def _annotation(mistake: Mistake, name: str) -> str:
    properties = {"file": relative_path(mistake.path), **_lines(mistake), "title": f"{mistake.code} {name}".strip()}
    # Lines of cells are no lines of the file that GitHub shows.
    cell = "" if mistake.cell is None else f"cell {mistake.cell}, line {mistake.line}: "
    text = f"{cell}{mistake.message}\n{mistake.advice}"
    command = "error" if mistake.code == UNREADABLE else "warning"
    listed = ",".join(f"{key}={_escape(str(value), _IN_PROPERTIES)}" for key, value in properties.items())
    return f"::{command} {listed}::{_escape(text, _IN_DATA)}"


def _lines(mistake: Mistake) -> dict[str, int]:
    region = mistake.region
    if region is None:
        return {}
    lines = {"line": region.line, "endLine": region.end_line}
    # GitHub takes columns only within one line.
    return lines | ({"col": region.column, "endColumn": region.end_column} if region.line == region.end_line else {})


def _escape(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
