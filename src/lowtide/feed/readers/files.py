"""Files by pattern, and small JSON files that are replaced atomically."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError


def find_files(given: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """The files that match a pattern, in alphabetical order, or the files of a list in its order."""
    if isinstance(given, str | os.PathLike):
        paths = sorted(glob.glob(os.fspath(given)))
    else:
        paths = [os.fspath(path) for path in given]
    if not paths:
        raise LowtideError("no file matches", given=given, cure="check the pattern")
    for path in paths:
        if not os.path.isfile(path):
            problem = "is a folder" if os.path.isdir(path) else "does not exist"
            raise LowtideError(f"{path} {problem}", cure="give paths of files, or a pattern that matches them")
    return paths


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file so that a crash leaves either the old or the new file."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps(content), encoding="utf-8")
    fresh.replace(path)
