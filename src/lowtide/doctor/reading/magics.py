"""What IPython understands and Python does not: magics, shell commands and help."""

from __future__ import annotations

import ast
import re
import warnings

# "%matplotlib inline", "!pip install lowtide", "?print"; a line of Python can begin so only within an expression.
_LINE = re.compile(r"^\s*[%!?]")
_HELP = re.compile(r"^\s*[%\w.]+\?{1,2}\s*$")
_ASSIGNED = re.compile(r"^(\s*[\w.,\s]+=\s*)([%!])")
# Magics and commands that IPython also understands without "%" or "!".
_BARE = re.compile(r"^\s*(pip3?|conda|ls|cd|mkdir|rm|cp|mv|cat)\s+[^\s=(\[]")
_CELL = re.compile(r"^\s*%%(\w+)")
_TIMED = frozenset({"time", "timeit", "capture", "prun", "memit", "skip_for_export"})


def without_magics(text: str) -> list[str]:
    """Return the lines of a cell; those that are not Python are comments or empty values."""
    lines = text.split("\n")
    code = next((number for number, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), 0)
    if match := _CELL.match(lines[code]):
        lines[code] = "#" + lines[code][1:]
        if match[1] not in _TIMED:
            # A cell in another language.
            return [*lines[: code + 1], *("#" + line[1:] for line in lines[code + 1 :])]
    if indent := lines[code][: len(lines[code]) - len(lines[code].lstrip())]:
        # IPython runs a cell that is indented as a whole.
        lines = [line.removeprefix(indent) for line in lines]
    if not any(pattern.match(line) for line in lines for pattern in (_LINE, _HELP, _ASSIGNED, _BARE)):
        return lines
    if _parses("\n".join(lines)):
        # Those lines are within strings and expressions.
        return lines
    found = []
    continues = False
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        if continues:
            found.append("#" + line[1:])
        elif match := _ASSIGNED.match(line):
            found.append(f"{match[1]}None  #{line[match.end(2) :]}")
        elif _LINE.match(line) or _HELP.match(line) or _BARE.match(line):
            found.append(f"{indent}pass  #" + line[len(indent) + 7 :] if indent else "#" + line[1:])
        else:
            found.append(line)
            continue
        continues = line.rstrip().endswith("\\")
    return found


def _parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
