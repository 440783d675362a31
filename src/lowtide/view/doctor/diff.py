"""A unified diff in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

_STYLES = (("---", "bold"), ("+++", "bold"), ("@@", "cyan"), ("-", "red"), ("+", "green"), ("\\", "dim"))


def render_diff(lines: Iterable[str]) -> Iterator[Text]:
    """Yield the lines of a diff, coloured by their first characters."""
    for line in lines:
        for text in line.rstrip("\n").split("\n"):
            style = next((style for begin, style in _STYLES if text.startswith(begin)), "")
            yield Text(text, style, no_wrap=True, overflow="ignore")
