"""Which rules are applied and which files are left out: options, and `[tool.lowtide.doctor]` in pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from lowtide.doctor.check import UNREADABLE
from lowtide.doctor.reading.patterns import Patterns
from lowtide.doctor.rule import Rule
from lowtide.doctor.rules import all_rules
from lowtide.errors import LowtideError

_KEYS = ("select", "ignore", "exclude")
_TABLE = "[tool.lowtide.doctor]"


@dataclass(frozen=True)
class DoctorSettings:
    """Codes or their beginnings, such as "LT2", and patterns of files as in .gitignore."""

    select: tuple[str, ...] = ()
    """The rules to apply; empty for all."""
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    folder: Path | None = None
    """The folder of the file of the settings, in which the patterns hold."""

    def wants(self, code: str) -> bool:
        """Whether mistakes with a code are reported; a file that cannot be read always is, unless that is ignored."""
        is_selected = not self.select or code == UNREADABLE or code.startswith(self.select)
        return is_selected and not (self.ignore and code.startswith(self.ignore))

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules to apply."""
        return tuple(rule for rule in all_rules() if self.wants(rule.code))

    @cached_property
    def excluded(self) -> Patterns | None:
        """The files to leave out."""
        return Patterns(self.folder, self.exclude) if self.folder is not None and self.exclude else None


def check_codes(codes: Iterable[str], given: str) -> tuple[str, ...]:
    """Return codes in upper case; raises an error that names the nearest if no rule has one."""
    known = [UNREADABLE, *(rule.code for rule in all_rules())]
    found = [code.strip().upper() for text in codes for code in text.split(",") if code.strip()]
    for code in found:
        if not any(each.startswith(code) for each in known):
            raise LowtideError("no rule has this code", given=f"{given} {code}", cure=suggest_code(code, known))
    return tuple(dict.fromkeys(found))


def suggest_code(code: str, known: Iterable[str]) -> str:
    """Return what to do about a code that no rule has."""
    near = get_close_matches(code.upper(), list(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else "lowtide doctor --list shows all rules"


def find_settings(path: Path) -> DoctorSettings:
    """Return the settings of the nearest pyproject.toml above a path that has a table for the doctor."""
    absolute = path.absolute()
    for folder in (absolute, *absolute.parents):
        file = folder / "pyproject.toml"
        if file.is_file() and (found := _read(file)) is not None:
            return found
    return DoctorSettings()


def _read(file: Path) -> DoctorSettings | None:
    try:
        tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError) as error:
        raise LowtideError(f"cannot read pyproject.toml: {error}", given=file, cure="correct it") from error
    table = tool.get("lowtide", {}).get("doctor") if isinstance(tool.get("lowtide", {}), dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise LowtideError(f"{_TABLE} is not a table", given=file, cure=f"its keys are {', '.join(_KEYS)}")
    for key, value in table.items():
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            cure = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(_KEYS)}"
            raise LowtideError(f"no such setting in {_TABLE}", given=f"{key} in {file}", cure=cure)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise LowtideError(f"{key} in {_TABLE} is a list of texts", given=f"{value!r} in {file}")
    select, ignore = (check_codes(table.get(key, ()), f"{key} in {file}:") for key in ("select", "ignore"))
    return DoctorSettings(select, ignore, tuple(table.get("exclude", ())), file.parent)
