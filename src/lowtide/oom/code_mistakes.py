"""Mistakes in the user's code that explain a shortage, as the doctor finds them by reading the code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lowtide.doctor.behind_lines import check_python, find_mistakes_behind
from lowtide.doctor.problem import Mistake
from lowtide.oom.evidence import Evidence
from lowtide.oom.shortage import CodeMistake, Shortage

# What holds less than this share of the memory did not fill it.
_NOTABLE_SHARE = 0.05
_MOST = 3
_SOURCE = re.compile(r"(?P<file>.+):(?P<line>\d+)")
# "global `history` of train.py", "attribute `data` of Trainer"
_VARIABLE = re.compile(r"`(\w+)`")
# The rules for what a cause says, where no line is named.
_OF_CAUSES = {"leak": ("LT401",), "constant": ("LT102", "LT103")}
_GRAPH_CONSTANTS = ("Const", "HostConst", "_HostConst")


def name_mistakes(shortage: Shortage, script: Path) -> Shortage:
    """Return a shortage with the mistakes in a script, and in files beside it, that explain it."""
    found = _behind_lines(shortage, script.parent, script) or _of_cause(shortage, script)
    return replace(shortage, mistakes=_described(found))


def name_mistakes_of_log(shortage: Shortage, log: Path) -> Shortage:
    """Return a shortage with the mistakes on the lines that its log names, in files beside the log that are older."""
    try:
        written = log.stat().st_mtime
    except OSError:
        return shortage
    found = [each for each in _behind_lines(shortage, log.parent, None) if each.path.stat().st_mtime <= written]
    return replace(shortage, mistakes=_described(found))


def _behind_lines(shortage: Shortage, folder: Path, script: Path | None) -> list[Mistake]:
    """Return the mistakes in the lines that the shortage names, and in those with the variables that hold memory."""
    lines: dict[Path, set[int]] = {}
    for source in _sources(shortage):
        if match := _SOURCE.fullmatch(source):
            path = script if script is not None and script.name == match["file"] else folder / match["file"]
            lines.setdefault(path, set()).add(int(match["line"]))
    variables = _held_variables(shortage)
    if script is not None and variables:
        lines.setdefault(script, set())
    return [each for path, numbers in lines.items() for each in find_mistakes_behind(path, numbers, variables)]


def _sources(evidence: Evidence) -> Iterable[str]:
    holders = (holder.source for holder in evidence.holders if _is_notable(holder.bytes, evidence))
    return [source for source in (evidence.request.source, *holders) if source is not None]


def _held_variables(evidence: Evidence) -> set[str]:
    """Return the Python variables that hold much of the memory."""
    names = (holder.name for holder in evidence.holders if _is_notable(holder.bytes, evidence))
    return {match[1] for name in names if name is not None and (match := _VARIABLE.search(name))}


def _is_notable(held: int, evidence: Evidence) -> bool:
    return held >= _NOTABLE_SHARE * sum(holder.bytes for holder in evidence.holders)


def _of_cause(shortage: Shortage, script: Path) -> list[Mistake]:
    """Return the mistakes of a script that are what the cause says."""
    codes = _OF_CAUSES.get(shortage.cause.name, ())
    if shortage.cause.name == "constant" and shortage.request.op not in (None, *_GRAPH_CONSTANTS):
        return []
    return [each for each in check_python(script) if each.code in codes] if codes else []


def _described(mistakes: Iterable[Mistake]) -> tuple[CodeMistake, ...]:
    found = (CodeMistake(each.code, f"{each.path.name}:{each.line}", each.message) for each in mistakes)
    return tuple(dict.fromkeys(found))[:_MOST]
