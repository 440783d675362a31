"""Where the cache is, and how large it may grow."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from lowtide.units import parse_bytes

_LIMIT = "20GiB"
# The part of an entry whose modification time orders entries by last use. An entry without parts is one file.
HEADER = "header.json"
GRAPHS, ANSWERS = "graphs", "answers"


def cache_folder() -> Path:
    """Return the folder of the cache: LOWTIDE_CACHE, or a folder in the user's cache."""
    given = os.environ.get("LOWTIDE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lowtide"


def cache_limit() -> int:
    """Return the most bytes that all entries may take: LOWTIDE_CACHE_LIMIT, or 20 GiB."""
    return parse_bytes(os.environ.get("LOWTIDE_CACHE_LIMIT") or _LIMIT)


def make_room(kept: Path, limit_bytes: int) -> None:
    """Remove the least recently used entries of the cache, except `kept`, until the rest fits."""
    found = list(_entries(kept.parent.parent))
    total = sum(size for _, size, _ in found)
    for _, size, entry in sorted(found):
        if total <= limit_bytes:
            break
        if entry != kept:
            remove_entry(entry)
            total -= size


def remove_entry(entry: Path) -> None:
    """Remove an entry; another process may have removed it before."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            entry.unlink()


def _entries(cache: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield the time of the last use, the size and the path of each entry."""
    for path in (*cache.glob(f"{GRAPHS}/*/{HEADER}"), *cache.glob(f"{ANSWERS}/*")):
        # Another process may remove the same entries.
        with contextlib.suppress(OSError):
            used = path.stat().st_mtime_ns
            if path.name == HEADER:
                yield used, sum(file.stat().st_size for file in path.parent.iterdir()), path.parent
            elif path.is_file():
                yield used, path.stat().st_size, path
