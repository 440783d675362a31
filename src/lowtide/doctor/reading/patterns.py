"""Patterns of files to leave out, as in .gitignore."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_GLOB = re.compile(r"\*\*/|/\*\*$|\*|\?|\[[!^]?\]?[^\]]*\]|\\.|.", re.DOTALL)


@dataclass(frozen=True)
class _Pattern:
    regex: re.Pattern[str]
    only_folders: bool
    """Whether it ends with a slash."""
    is_kept: bool
    """Whether what matches is not left out after all: it begins with "!"."""


class Patterns:
    """The lines of a .gitignore, or the like, which hold for what is in one folder."""

    def __init__(self, folder: Path, lines: Iterable[str]) -> None:
        self._folder = str(folder)
        self._patterns = [pattern for line in lines if (pattern := _parse(line)) is not None]

    def decide(self, path: Path, *, is_folder: bool) -> bool | None:
        """Return whether a path is left out: that of the last pattern that matches; None if none does."""
        text = str(path)
        if not text.startswith(self._folder):
            return None
        relative = text[len(self._folder) :].strip("/")
        for pattern in reversed(self._patterns):
            if (is_folder or not pattern.only_folders) and pattern.regex.fullmatch(relative):
                return not pattern.is_kept
        return None

    def excludes(self, path: Path) -> bool:
        """Whether a file, or a folder that it is in, is left out."""
        parents = [each for each in reversed(path.parents) if len(str(each)) > len(self._folder)]
        return any(self.decide(each, is_folder=True) for each in parents) or bool(self.decide(path, is_folder=False))


def read_gitignore(folder: Path) -> Patterns | None:
    """Return the patterns of a folder's .gitignore; None if it has none."""
    try:
        text = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return Patterns(folder, text.splitlines())


def _parse(line: str) -> _Pattern | None:
    text = re.sub(r"(?<!\\)\s+$", "", line)
    if not text or text.startswith("#"):
        return None
    is_kept = text.startswith("!")
    text = text.removeprefix("!")
    only_folders = text.endswith("/")
    text = text.rstrip("/")
    # A pattern without a slash matches at any depth.
    begin = "" if "/" in text else "(?:.*/)?"
    try:
        regex = re.compile(begin + "".join(_translate(part) for part in _GLOB.findall(text.lstrip("/"))), re.DOTALL)
    except re.error:
        return None
    return _Pattern(regex, only_folders, is_kept)


def _translate(part: str) -> str:
    if part == "**/":
        return "(?:.*/)?"
    if part == "/**":
        return "/.*"
    if part == "*":
        return "[^/]*"
    if part == "?":
        return "[^/]"
    if part.startswith("[") and len(part) > 1:
        inner = part[1:-1].replace("\\", r"\\")
        return f"[^{inner[1:]}]" if inner[:1] in ("!", "^") else f"[{inner}]"
    return re.escape(part[1:] if len(part) == 2 and part.startswith("\\") else part)
