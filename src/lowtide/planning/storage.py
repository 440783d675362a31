"""The `.plan` file: a zip of one JSON header and the tides before and after."""

from __future__ import annotations

import zipfile
from dataclasses import asdict
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.tide import storage as tide_storage
from lowtide.tide.archive import FileFormat, Read
from lowtide.tide.tide import Tide

if TYPE_CHECKING:
    from lowtide.planning.plan import Plan

_FILE = FileFormat("plan", 1, "plan.save() or lowtide plan --save", "plan again")

_TIDES = ("before", "after")


def is_plan(path: str | PathLike[str]) -> bool:
    """Whether a file is a plan rather than a tide: by its name, or else by its content."""
    if fspath(path).endswith(".plan"):
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return _FILE.header in archive.namelist()
    except (OSError, zipfile.BadZipFile, NotImplementedError):
        return False


def save(plan: Plan, path: str | PathLike[str]) -> None:
    """Write `plan` to `path`; the step itself is not in the file."""
    header = {
        "target": plan.target,
        "budget_bytes": plan.budget_bytes,
        "slowdown": plan.slowdown,
        "fingerprint": plan.fingerprint,
        "pieces": plan.pieces,
        "precision": plan.precision,
        "notes": plan.notes,
        "actions": [asdict(action) for action in plan.actions],
        "frontier": [asdict(point) for point in plan.frontier],
        "rewrite": asdict(plan.rewrite),
    }
    members = {f"{name}.tide": tide_storage.to_bytes(getattr(plan, name)) for name in _TIDES}
    _FILE.write(path, _FILE.pack(header, members))


def load(path: str | PathLike[str]) -> Plan:
    """Read the plan in `path`."""

    def rebuild(header: dict[str, Any], members: frozenset[str], read: Read) -> Plan:
        tides = {name: tide_storage.from_bytes(read(f"{name}.tide"), fspath(path), Tide) for name in _TIDES}
        return _rebuild(header, tides)

    return _FILE.unpack(_FILE.read(path), fspath(path), rebuild)


def _rebuild(header: dict[str, Any], tides: dict[str, Any]) -> Plan:
    from lowtide.planning.plan import Action, FrontierPoint, Plan

    precision = header["precision"]
    return Plan(
        **tides,
        target=str(header["target"]),
        budget_bytes=int(header["budget_bytes"]),
        slowdown=float(header["slowdown"]),
        fingerprint=str(header["fingerprint"]),
        pieces=int(header["pieces"]),
        precision=None if precision is None else str(precision),
        notes=tuple(map(str, header["notes"])),
        actions=tuple(Action(**action) for action in header["actions"]),
        frontier=tuple(FrontierPoint(**point) for point in header["frontier"]),
        rewrite=Rewrite(**{name: tuple(map(tuple, rows)) for name, rows in header["rewrite"].items()}),
    )
