"""Which files are read: those that are named, and those in folders that belong to the project."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lowtide.doctor.reading.patterns import Patterns, read_gitignore
from lowtide.doctor.reading.source import SUFFIXES

# Folders with the code of others, or with copies; so are hidden ones, and those with the file of a virtual environment.
_SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "dist-packages", "venv", "env"})
_ENVIRONMENT = "pyvenv.cfg"


def find_files(folder: Path, excluded: Patterns | None = None) -> Iterator[Path]:
    """Yield the Python files, notebooks and Markdown files in a folder, in order; without what git ignores."""
    outer = [] if excluded is None else [excluded]
    ignored = [*outer, *_gitignores_above(folder.absolute())]
    yield from _walk(folder, ignored)


def _walk(folder: Path, ignored: Sequence[Patterns]) -> Iterator[Path]:
    here = read_gitignore(folder.absolute())
    ignored = ignored if here is None else [*ignored, here]
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError:
        return
    for entry in entries:
        path = folder / entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and _is_skipped(path):
            continue
        if not is_folder and (path.suffix not in SUFFIXES or not entry.is_file()):
            continue
        if _is_ignored(path.absolute(), ignored, is_folder=is_folder):
            continue
        if is_folder:
            yield from _walk(path, ignored)
        else:
            yield path


def _is_skipped(folder: Path) -> bool:
    name = folder.name
    return name.startswith(".") or name in _SKIPPED or name.endswith(".egg-info") or (folder / _ENVIRONMENT).exists()


def _is_ignored(path: Path, ignored: Sequence[Patterns], *, is_folder: bool) -> bool:
    # The innermost file that says anything decides, as git has it.
    decisions = (patterns.decide(path, is_folder=is_folder) for patterns in reversed(ignored))
    return next((decision for decision in decisions if decision is not None), False)


def _gitignores_above(folder: Path) -> list[Patterns]:
    """Return the patterns of the folders above, up to that of the repository, the outermost first."""
    if (folder / ".git").exists():
        return []
    found = []
    for above in folder.parents:
        if (patterns := read_gitignore(above)) is not None:
            found.append(patterns)
        if (above / ".git").exists():
            return found[::-1]
    # Outside of a repository these files mean nothing.
    return []
