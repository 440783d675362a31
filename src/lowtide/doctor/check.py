"""Checks sources with rules."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path

from lowtide.doctor.module import Module
from lowtide.doctor.problem import Mistake, Problem
from lowtide.doctor.rule import Rule
from lowtide.doctor.rules import all_rules
from lowtide.doctor.source import Code, read_source
from lowtide.errors import LowtideError

UNREADABLE = "LT000"
"""The code of a file that cannot be read or parsed."""
# A file without these words has nothing for a rule.
_WORDS = re.compile(r"tensorflow|keras")
_IGNORE = re.compile(r"#\s*lowtide:\s*ignore(?:\[([\w\s,]*)\])?")


def check_file(path: Path, rules: Sequence[Rule] | None = None) -> list[Mistake]:
    """Return the mistakes in a file, by line; one of code LT000 if it cannot be read."""
    try:
        sources = read_source(path)
    except LowtideError as error:
        return [_unreadable(path, 1, error.problem, error.cure)]
    return [finding for source in sources for finding in check_source(source, rules)]


def check_source(source: Code, rules: Sequence[Rule] | None = None) -> list[Mistake]:
    """Return the mistakes in a source, by line; one of code LT000 if it does not parse."""
    if not _WORDS.search(source.text):
        return []
    try:
        module = Module(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        if source.path.suffix == ".md":
            # Blocks of documents may be parts of programs.
            return []
        cell, line = source.find_place(getattr(error, "lineno", None) or 1)
        return [_unreadable(source.path, line, f"the file does not parse: {getattr(error, 'msg', error)}", cell=cell)]
    found = [
        _finding(module, rule, problem)
        for rule in (all_rules() if rules is None else rules)
        for problem in _unique(rule.check(module))
    ]
    ignored = _find_ignored(source.text)
    kept = [each for line, each in found if not _is_ignored(each.code, ignored.get(line))]
    return sorted(kept, key=lambda each: (each.cell or 0, each.line, each.column, each.code))


def _unique(problems: Iterable[Problem]) -> Iterator[Problem]:
    seen = set()
    for each in problems:
        if each.node not in seen:
            seen.add(each.node)
            yield each


def _finding(module: Module, rule: Rule, problem: Problem) -> tuple[int, Mistake]:
    """Return the line in the text that a problem is on, and the finding."""
    node = problem.node
    line, end_line = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
    if isinstance(node, (ast.For, ast.While, ast.With, ast.FunctionDef, ast.ClassDef)):
        # The line of the statement, not all that is in it.
        end_line = line
    cell, shown = module.source.find_place(line)
    _, shown_end = module.source.find_place(end_line)
    begin = module.offset(line, node.col_offset) - module.offset(line, 0)  # type: ignore[attr-defined]
    end = module.offset(end_line, node.end_col_offset or 0) - module.offset(end_line, 0)  # type: ignore[attr-defined]
    return line, Mistake(
        rule.code, module.source.path, shown, begin + 1, shown_end, end + 1, problem.message, problem.advice, cell,
        problem.edits,
    )  # fmt: skip


def _find_ignored(text: str) -> dict[int, frozenset[str]]:
    """Return for each line with a comment `lowtide: ignore[LT103, LT2]` the codes in it; none means all."""
    if "lowtide:" not in text:
        return {}
    found = {}
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.COMMENT and (match := _IGNORE.search(token.string)):
            found[token.start[0]] = frozenset((match[1] or "").upper().replace(",", " ").split())
    return found


def _is_ignored(code: str, ignored: frozenset[str] | None) -> bool:
    return ignored is not None and (not ignored or code.startswith(tuple(ignored)))


def _unreadable(path: Path, line: int, problem: str, advice: str | None = None, cell: int | None = None) -> Mistake:
    return Mistake(UNREADABLE, path, line, 1, line, 1, problem, advice or "correct it, or exclude the file", cell)
