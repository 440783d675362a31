"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lowtide.doctor.code.module import Module
from lowtide.doctor.problem import Problem


@dataclass(frozen=True)
class Rule:
    """A mistake that can be found by reading code. The docstring of its module explains it."""

    code: str
    """Such as "LT103"; it never gets another meaning."""
    name: str
    """The mistake in a few words."""
    check: Callable[[Module], Iterable[Problem]]
    explanation: str
    """Why it is a mistake, and what to do: Markdown."""
