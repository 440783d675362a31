"""Paths of files as other programs expect them: relative to the working directory, which is that of the repository."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote


def relative_path(path: Path) -> str:
    """Return the path within the working directory; of a file elsewhere, the whole path."""
    try:
        return path.absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def uri_of(path: Path) -> tuple[str, bool]:
    """Return the URI of a file, and whether it is relative to the working directory."""
    relative = relative_path(path)
    if Path(relative).is_absolute() or relative.startswith(".."):
        return path.resolve().as_uri(), False
    return quote(relative), True
