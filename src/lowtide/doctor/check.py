"""Checks sources with rules."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

from lowtide.doctor.code.module import Module, parse
from lowtide.doctor.problem import Mistake, Problem
from lowtide.doctor.reading.source import Code, read_source
from lowtide.doctor.rule import Rule
from lowtide.doctor.rules import all_rules
from lowtide.errors import LowtideError

UNREADABLE = "LT000"
"""The code of a file that cannot be read or parsed."""
# A file without these words has nothing for a rule.
_WORDS = re.compile(r"tensorflow|keras")
_IGNORE = re.compile(r"#\s*lowtide:\s*ignore(-file)?\b(?:\[([\w\s,]*)\])?")
# What Python's parser raises for a text that is no program; the last two for one that is nested too deeply.
_NOT_PARSED = (SyntaxError, ValueError, RecursionError, MemoryError)


def check_file(path: Path, rules: Sequence[Rule] | None = None) -> list[Mistake]:
    """Return the mistakes in a file, by line; one of code LT000 if it cannot be read."""
    try:
        sources = read_source(path)
    except LowtideError as error:
        return [unreadable(path, error.problem, error.cure)]
    return [finding for source in sources for finding in check_source(source, rules)]


def check_source(source: Code, rules: Sequence[Rule] | None = None) -> list[Mistake]:
    """Return the mistakes in a source, by line; one of code LT000 if it does not parse."""
    broken: list[Mistake] = []
    try:
        if not _WORDS.search(source.text):
            parse(source.text)
            return []
        module = Module(source)
    except _NOT_PARSED as error:
        # Blocks of documents may be parts of programs.
        broken = [] if source.path.suffix == ".md" else [_describe_error(source, error)]
        if not source.is_notebook:
            return [each for each in broken if not _is_ignored(each.code, _ignored_everywhere(source.text))]
        source, broken = _without_broken_cells(source)
        if not _WORDS.search(source.text):
            return broken
        module = Module(source)
    found = [
        _finding(module, rule, problem)
        for rule in (all_rules() if rules is None else rules)
        for problem in _unique(rule.check(module))
    ]
    everywhere, ignored = _ignored_everywhere(source.text), _find_ignored(source.text)
    kept = [
        each
        for lines, each in found
        if not _is_ignored(each.code, everywhere, *(codes for line in lines for codes in ignored.get(line, ())))
    ]
    kept += [each for each in broken if not _is_ignored(each.code, everywhere)]
    return sorted(kept, key=lambda each: (each.cell or 0, each.line, each.column, each.code))


def _unique(problems: Iterable[Problem]) -> Iterator[Problem]:
    seen = set()
    for each in problems:
        if each.node not in seen:
            seen.add(each.node)
            yield each


def _finding(module: Module, rule: Rule, problem: Problem) -> tuple[range, Mistake]:
    """Return the lines in the text that a problem is on, and the finding."""
    node = problem.node
    line, end_line = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
    begin = module.offset(line, node.col_offset) - module.offset(line, 0)  # type: ignore[attr-defined]
    end = module.offset(end_line, node.end_col_offset or 0) - module.offset(end_line, 0)  # type: ignore[attr-defined]
    excerpt = module.line_text(line)
    if isinstance(node, (ast.For, ast.While, ast.With, ast.FunctionDef, ast.ClassDef)):
        # The line of the statement, not all that is in it.
        end_line, end = line, len(excerpt.rstrip())
    cell, shown = module.source.find_place(line)
    _, shown_end = module.source.find_place(end_line)
    indent = module.source.indent
    return range(line, end_line + 1), Mistake(
        rule.code, module.source.path, shown, indent + begin + 1, shown_end, indent + end + 1, problem.message,
        problem.advice, cell, problem.edits, " " * indent + excerpt,
    )  # fmt: skip


# -- comments --------------------------------------------------------------------------------------------------------


def _find_ignored(text: str) -> dict[int, list[frozenset[str]]]:
    """Return for each line with a comment `lowtide: ignore[LT103, LT2]` the codes in it; none means all."""
    found: dict[int, list[frozenset[str]]] = {}
    for line, is_whole_file, codes in _comments(text):
        if not is_whole_file:
            found.setdefault(line, []).append(codes)
    return found


def _ignored_everywhere(text: str) -> frozenset[str] | None:
    """Return the codes of all comments `lowtide: ignore-file[LT103]`; none means all, and None that there are none."""
    found = [codes for _, is_whole_file, codes in _comments(text) if is_whole_file]
    if not found:
        return None
    return frozenset() if frozenset() in found else frozenset().union(*found)


def _comments(text: str) -> Iterator[tuple[int, bool, frozenset[str]]]:
    """Yield the line, whether it is for the whole file, and the codes of each comment to lowtide."""
    if "lowtide:" not in text:
        return
    try:
        for token in tokenize.generate_tokens(StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _IGNORE.search(token.string)):
                codes = frozenset((match[2] or "").upper().replace(",", " ").split())
                yield token.start[0], match[1] is not None, codes
    except (tokenize.TokenError, SyntaxError):
        # The text does not parse; what stands before its error counts.
        return


def _is_ignored(code: str, *ignored: frozenset[str] | None) -> bool:
    return any(each is not None and (not each or code.startswith(tuple(each))) for each in ignored)


# -- what does not parse ---------------------------------------------------------------------------------------------


def unreadable(path: Path, problem: str, advice: str | None = None) -> Mistake:
    """Return the mistake of a file that cannot be read."""
    return Mistake(UNREADABLE, path, 1, 1, 1, 1, problem, advice or "correct the file, or exclude it")


def _describe_error(source: Code, error: BaseException, lines_before: int = 0) -> Mistake:
    """Return the mistake of a source that does not parse."""
    cell, line = source.find_place((getattr(error, "lineno", None) or 1) + lines_before)
    column = max(getattr(error, "offset", None) or 1, 1)
    reason = "it is nested too deeply" if isinstance(error, (RecursionError, MemoryError)) else None
    reason = reason or getattr(error, "msg", None) or str(error)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    message = f"the {'file' if cell is None else 'cell'} does not parse as Python {version}: {reason}"
    advice = "correct the file, or exclude it" if cell is None else "correct the cell; the others were checked"
    excerpt = (getattr(error, "text", None) or "").split("\n")[0]
    return Mistake(UNREADABLE, source.path, line, column, line, column + 1, message, advice, cell, (), excerpt)


def _without_broken_cells(source: Code) -> tuple[Code, list[Mistake]]:
    """Return a notebook without its cells that do not parse, and a mistake for the first of them."""
    lines = source.text.split("\n")
    broken: list[Mistake] = []
    begins = [cell.first_line - 1 for cell in source.cells]
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        text = "\n".join(lines[begin:end]) + "\n"
        try:
            parse(text)
        except _NOT_PARSED as error:
            lines[begin:end] = ["#"] * (end - begin)
            # IPython runs a cell that is indented as a whole.
            if not _parses(textwrap.dedent(text)):
                broken.append(_describe_error(source, error, begin))
    if len(broken) > 1:
        others = f"; nor do {len(broken) - 1:,} other cells" if len(broken) > 2 else "; nor does another cell"
        broken = [replace(broken[0], message=broken[0].message + others)]
    return replace(source, text="\n".join(lines)), broken


def find_broken_parts(sources: Sequence[Code]) -> set[tuple[int, int]]:
    """Return the numbers of the sources, and of their cells, that do not parse."""
    found = set()
    for number, source in enumerate(sources):
        lines = source.text.split("\n")
        begins = [cell.first_line - 1 for cell in source.cells] if source.is_notebook else [0]
        for cell, (begin, end) in enumerate(zip(begins, [*begins[1:], len(lines)], strict=True)):
            if not _parses("\n".join(lines[begin:end]) + "\n"):
                found.add((number, cell))
    return found


def _parses(text: str) -> bool:
    try:
        parse(text)
    except _NOT_PARSED:
        return False
    return True
