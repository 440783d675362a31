"""The explanation of a rule, with the examples beside it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from lowtide.doctor.check import UNREADABLE
from lowtide.doctor.rule import Rule
from lowtide.doctor.rules import all_rules, examples, find_rule
from lowtide.doctor.settings import suggest_code
from lowtide.errors import LowtideError

# Examples are tests as well, and may be long; this many lines show what is meant.
_SHOWN_LINES = 32
_MARK = re.compile(r" *# bad$", re.MULTILINE)

_UNREADABLE_TEXT = """\
A file that cannot be read, or that does not parse as Python, is not checked.

The message says what Python's parser found. The version of Python that runs lowtide decides: a file for a newer
version, or for Python 2, does not parse. In a notebook only the cells that do not parse are left out; the others are
checked, and IPython's magics and shell commands are understood. In Markdown, blocks that do not parse are left out
without a word, because they are often parts of programs.

Correct the file, leave it out with `exclude` in `pyproject.toml`, or accept such files with `--ignore LT000`.
"""


@dataclass(frozen=True)
class Explanation:
    """What a rule is about, for people."""

    code: str
    name: str
    """The mistake in a few words."""
    group: str
    """What the rules of its folder have in common."""
    text: str
    """Why it is a mistake, and what to do: Markdown."""
    bad: str | None = None
    """Code with the mistake; a comment with the code marks each line where it is found."""
    good: str | None = None
    before: str | None = None
    """Code that --fix corrects; None if the rule corrects nothing."""
    after: str | None = None

    @property
    def is_fixable(self) -> bool:
        """Whether --fix corrects the mistake, at least where that is safe."""
        return self.before is not None

    def examples(self) -> list[tuple[str, str]]:
        """Return the examples, each with its heading."""
        named = (
            ("Found", self.bad),
            ("Not found", self.good),
            ("Before --fix", self.before),
            ("After --fix", self.after),
        )
        return [(heading, code) for heading, code in named if code is not None]

    def to_markdown(self) -> str:
        """Return all of it as a Markdown document."""
        parts = [f"# {self.code}: {self.name}", self.text.strip()]
        for heading, code in self.examples():
            parts += [f"## {heading}", f"```python\n{code.rstrip()}\n```"]
        parts.append(f"`# lowtide: ignore[{self.code}]` at the end of a line accepts it there.")
        return "\n\n".join(parts) + "\n"


def explain_rule(code: str) -> Explanation:
    """Return the explanation of a code; raises an error that names the nearest if no rule has it."""
    if code.strip().upper() == UNREADABLE:
        return Explanation(UNREADABLE, "a file that cannot be read", "Files", _UNREADABLE_TEXT)
    rule = find_rule(code.strip())
    if rule is None:
        cure = suggest_code(code, [UNREADABLE, *(each.code for each in all_rules())])
        raise LowtideError("no rule has this code", given=code, cure=cure)
    return _explain(rule)


def explain_all() -> list[Explanation]:
    """Return the explanations of all codes, in order."""
    return [explain_rule(UNREADABLE), *(_explain(rule) for rule in all_rules())]


def _explain(rule: Rule) -> Explanation:
    package = _module_name(rule.check).rpartition(".")[0]
    group = (inspect.getdoc(import_module(package)) or "").partition("\n")[0].rstrip(".")
    bad = _example(rule, ".bad.py")
    return Explanation(
        rule.code,
        rule.name,
        group,
        inspect.cleandoc(rule.explanation),
        None if bad is None else _MARK.sub(f"  # {rule.code}", bad),
        _example(rule, ".good.py"),
        _example(rule, ".in.py"),
        _example(rule, ".out.py"),
    )


def _module_name(check: Callable[..., object]) -> str:
    return str(check.__module__)


def _example(rule: Rule, ending: str) -> str | None:
    """Return the beginning of the first example of a kind: as many whole statements as can be read at a glance."""
    paths = examples(rule, ending)
    if not paths:
        return None
    text = paths[0].read_text(encoding="utf-8").strip("\n")
    lines = text.split("\n")
    if len(lines) <= _SHOWN_LINES:
        return text
    ends = [statement.end_lineno or 0 for statement in ast.parse(text).body]
    shown = max((end for end in ends if end <= _SHOWN_LINES), default=ends[0])
    return "\n".join(lines[:shown])
