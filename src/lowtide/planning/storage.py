"""The `.plan` file: a zip of one JSON header and the tides before and after."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from os import PathLike, fspath
from typing import Any, TypeVar

from lowtide.tide import storage as tide_storage
from lowtide.tide.archive import FileFormat, Read
from lowtide.tide.tide import Tide

_FILE = FileFormat("plan", 1, "plan.save() or lowtide plan --save", "plan again")

_TIDES = ("before", "after")

_Plan = TypeVar("_Plan")


def is_plan(path: str | PathLike[str]) -> bool:
    """Whether a file is a plan rather than a tide: by its name, or else by its content."""
    if fspath(path).endswith(".plan"):
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return _FILE.header in archive.namelist()
    except (OSError, zipfile.BadZipFile, NotImplementedError):
        return False


def save(path: str | PathLike[str], content: bytes) -> None:
    """Write the file of a plan."""
    _FILE.write(path, content)


def to_bytes(header: dict[str, Any], tides: dict[str, Tide]) -> bytes:
    """Return the content of the file of a plan: its header, and its tides "before" and "after"."""
    members = {f"{name}.tide": tide_storage.to_bytes(tides[name]) for name in _TIDES}
    return _FILE.pack(header, members)


def load(path: str | PathLike[str], rebuild: Callable[[dict[str, Any], dict[str, Tide]], _Plan]) -> _Plan:
    """Read a plan: `rebuild` makes it of the header and the tides, and raises a plain error if they are damaged."""
    return from_bytes(_FILE.read(path), fspath(path), rebuild)


def from_bytes(content: bytes, given: object, rebuild: Callable[[dict[str, Any], dict[str, Tide]], _Plan]) -> _Plan:
    """Return the plan that `to_bytes` packed; errors refer to it as `given`."""

    def unpack(header: dict[str, Any], members: frozenset[str], read: Read) -> _Plan:
        tides = {name: tide_storage.from_bytes(read(f"{name}.tide"), given, Tide) for name in _TIDES}
        return rebuild(header, tides)

    return _FILE.unpack(content, given, unpack)
