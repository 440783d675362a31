"""Answers of verbs that take long, kept on disk: the same question about the same program is answered from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lowtide.cache.answers import add_answer, find_answer
from lowtide.cache.dependencies import Observation, observing
from lowtide.cache.folder import cache_limit
from lowtide.cache.surroundings import key_of, surroundings
from lowtide.errors import LowtideError

if TYPE_CHECKING:
    from lowtide.tf.trace.target import Target

_Answer = TypeVar("_Answer")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def cache_option(function: _Function) -> _Function:
    """Add --no-cache."""
    text = "Compute everything again, and keep nothing."
    return click.option("--no-cache", is_flag=True, help=text)(function)


class Answers:
    """Answers to questions about one program, which is known by its name or by a digest of it."""

    def __init__(self, name: str, observation: Observation | None, around: object = None) -> None:
        self._name = name
        self._observation = observation
        self._surroundings = around
        # What lowtide builds itself needs not be built to know what it is.
        self.needs_program = not name.startswith("keras:")
        """Whether the program has to be loaded before an answer can be found."""
        self._program = None if self.needs_program else name
        self.found = 0
        """How many answers came from the cache."""

    def identify(self, target: Target) -> None:
        """Set the program of the question, once it is loaded."""
        if self._observation is not None and self.needs_program:
            from lowtide.tf.program_key import program_digest

            self._program = program_digest(target.program, *target.specs)

    def find_or(
        self,
        compute: Callable[[], _Answer],
        pack: Callable[[_Answer], bytes],
        unpack: Callable[[bytes], _Answer],
        *question: object,
    ) -> _Answer:
        """Return the answer from the cache, or else compute and keep it."""
        if self._observation is None or self._program is None:
            return compute()
        # A program that is known by its name does not depend on the current folder.
        folder = str(Path.cwd()) if self.needs_program else None
        key = key_of(self._surroundings, folder, self._name, self._program, question)
        with self._observation.paused():
            known = find_answer(key)
        if known is not None:
            try:
                answer = unpack(known)
                self.found += 1
                return answer
            except (LowtideError, ValueError):
                # It was written by other code after all.
                pass
        answer = compute()
        with self._observation.paused():
            dependencies = self._observation.dependencies()
            if dependencies is not None:
                add_answer(key, pack(answer), dependencies)
        return answer


@contextmanager
def answers_about(name: str, *, use: bool) -> Iterator[Answers]:
    """Return the answers about a program; what it reads meanwhile is observed, since answers depend on it."""
    if not use:
        yield Answers(name, None)
        return
    # A limit that is no number is refused before any time is spent.
    cache_limit()
    around = surroundings()
    with observing() as observation:
        yield Answers(name, observation, around)


def print_origin(answers: Answers) -> None:
    """Say on standard error that an answer is not new."""
    if answers.found:
        click.echo("answered from the cache; --no-cache computes it again", err=True)
