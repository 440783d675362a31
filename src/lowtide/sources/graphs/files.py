"""Finds the files below a folder that `lowtide view` can show."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
RUN_HISTORY, RUN_RECORD = "history.jsonl", "run.json"
"""The files of the directory of a training run; the history stands for the run."""

_SUFFIXES = (".pb", ".pbtxt", ".meta", ".keras", ".tide", ".plan")
# Files of models and summaries with the same suffixes that contain no graph.
_OTHERS = re.compile(r"fingerprint\.pb|keras_metadata\.pb|projector_config\.pbtxt|.*\.xplane\.pb")
_SKIPPED_FOLDERS = frozenset(("__pycache__", "node_modules", "site-packages"))
# Marks a cache folder: https://bford.info/cachedir/
CACHE_MARK = "CACHEDIR.TAG"

_DEEPEST = 64
_MOST_ENTRIES = 1_000_000


def find_files(path: Path) -> Iterator[Path]:
    """Yield every file below a folder that `find_graphs` would read, in natural order.

    Links that lead out of the folder, hidden files, caches and all files beyond a million entries are left out.
    """
    root = path.resolve()
    left = _MOST_ENTRIES
    waiting = [(path, 0)]
    while waiting:
        entry, depth = waiting.pop()
        if not entry.is_dir():
            yield entry
            continue
        names = _names(entry)
        left -= len(names)
        if left < 0:
            return
        if depth and CACHE_MARK in names:
            continue
        for name in sorted(names, key=_natural, reverse=True):
            below = entry / name
            if _is_wanted(below, root, depth):
                waiting.append((below, depth + 1))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        # A folder that cannot be read or was deleted counts as empty.
        return []


def _is_wanted(path: Path, root: Path, depth: int) -> bool:
    name = path.name
    if name.startswith("."):
        return False
    if path.is_dir():
        return depth < _DEEPEST and name not in _SKIPPED_FOLDERS and not path.is_symlink()
    is_named = ("tfevents" in name or name.endswith(_SUFFIXES)) and _OTHERS.fullmatch(name) is None
    return (
        (is_named or is_run_history(path))
        and path.is_file()
        and (not path.is_symlink() or path.resolve().is_relative_to(root))
    )


def is_run_history(path: Path) -> bool:
    """Whether a file is the history of a training run."""
    return path.name == RUN_HISTORY and path.with_name(RUN_RECORD).is_file()


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key in which run_2 comes before run_10."""
    parts = re.split(r"(\d+)", name)
    # Very long numbers sort as text, since converting them takes quadratic time.
    return [(int(part), "") if part.isdecimal() and len(part) < 20 else (-1, part) for part in parts]
