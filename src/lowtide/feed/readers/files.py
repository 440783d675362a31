"""Files that are read by pattern, and small ones that are either the old or the new one whatever happens."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError


def matching(given: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """The files that a pattern stands for in alphabetical order, or those of a list as they are."""
    if isinstance(given, str | os.PathLike):
        paths = sorted(glob.glob(os.fspath(given)))
    else:
        paths = [os.fspath(path) for path in given]
    if not paths:
        raise LowtideError("no file matches", given=given, cure="check the pattern")
    for path in paths:
        if not os.path.isfile(path):
            told = "is a folder" if os.path.isdir(path) else "does not exist"
            raise LowtideError(f"{path} {told}", cure="give paths of files, or a pattern that matches them")
    return paths


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file beside the old one, and then put it in its place."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps(content), encoding="utf-8")
    fresh.replace(path)
