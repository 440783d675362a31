"""The `.tide` file: a zip of one JSON header and one `.npy` member for each numeric column."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import asdict
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowtide.errors import LowtideError
from lowtide.tide.kinds import KINDS

if TYPE_CHECKING:
    from lowtide.tide.tide import Recording, Tide

FORMAT = "lowtide tide"
SCHEMA_VERSION = 1

_TEXT_COLUMNS = ("name", "op", "layer", "dtype", "shape", "source")
_NUMBER_COLUMNS = {"kind": "uint8", "requested": "int64", "allocated": "int64", "born": "int32", "died": "int32"}
_CURVE_COLUMNS = {"bytes_in_use": "int64", "node": "int32"}

# What reading a damaged or foreign file may raise, from the zip down to the fields of the header.
_DAMAGE = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, EOFError, NotImplementedError, RuntimeError)


def find_inconsistency(tide: Tide) -> str | None:
    """Return what is wrong with the columns of a tide, or None."""
    buffers, curve = tide.buffers, tide.curve
    rows, events = len(buffers.name), len(curve.bytes_in_use)
    for column in (*_TEXT_COLUMNS, *_NUMBER_COLUMNS):
        if len(getattr(buffers, column)) != rows:
            return f"its column {column} has {len(getattr(buffers, column))} rows, not {rows}"
    if buffers.address is not None and len(buffers.address) != rows:
        return f"its column address has {len(buffers.address)} rows, not {rows}"
    if events == 0:
        return "its curve has no events"
    if len(curve.node) != events:
        return f"its curve has {events} events, and nodes for {len(curve.node)}"
    if events > 1 and not (0 <= int(curve.node[1:].min()) and int(curve.node[1:].max()) < len(curve.nodes)):
        return "its curve names nodes that are not there"
    if rows and int(buffers.kind.max()) >= len(KINDS):
        return "it has kinds that are not known"
    if rows and not (
        0 <= int(buffers.born.min()) and int(buffers.born.max()) < events and int(buffers.died.max()) <= events
    ):
        return "it has buffers outside of the step"
    return None


def save(tide: Tide, path: str | PathLike[str]) -> None:
    """Write `tide` to `path`."""
    header = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "target": tide.target,
        "method": tide.method,
        "batch_size": tide.batch_size,
        "peak_bytes": tide.peak_bytes,
        "safe_bytes": tide.safe_bytes,
        "kinds": KINDS,
        "building": asdict(tide.building),
        "unmodelled": [asdict(op) for op in tide.unmodelled],
        "notes": tide.notes,
        "recording": None if tide.recording is None else asdict(tide.recording),
        "nodes": tide.curve.nodes,
        "buffers": {column: getattr(tide.buffers, column) for column in _TEXT_COLUMNS},
    }
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("tide.json", json.dumps(header))
            for column, kind in _NUMBER_COLUMNS.items():
                _write_column(archive, f"buffers/{column}", getattr(tide.buffers, column), kind)
            if tide.buffers.address is not None:
                _write_column(archive, "buffers/address", tide.buffers.address, "int64")
            for column, kind in _CURVE_COLUMNS.items():
                _write_column(archive, f"curve/{column}", getattr(tide.curve, column), kind)
    except OSError as error:
        raise LowtideError(f"cannot write the tide: {error.strerror}", given=fspath(path)) from error


def load(path: str | PathLike[str]) -> Tide:
    """Read the tide in `path`."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise LowtideError(f"cannot read the tide: {error.strerror}", given=fspath(path)) from error
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise _not_a_tide(path, "it is not a .tide file, or it was cut off")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            header = json.loads(archive.read("tide.json"))
            if header["format"] != FORMAT:
                raise ValueError(f"its format is {header['format']!r}")
            if header["schema_version"] != SCHEMA_VERSION:
                raise LowtideError(
                    f"a tide of schema version {header['schema_version']}, where this lowtide reads {SCHEMA_VERSION}",
                    given=fspath(path),
                    cure="read it with the version of lowtide that wrote it, or predict again",
                )
            return _rebuild(archive, header)
    except _DAMAGE as error:
        raise _not_a_tide(path, f"it is damaged, or was not written by lowtide: {error}") from error


def _rebuild(archive: zipfile.ZipFile, header: dict[str, Any]) -> Tide:
    from lowtide.tide.tide import Buffers, Building, Curve, Tide, Unmodelled

    # Tides of earlier versions have neither addresses nor a recording.
    members = archive.namelist()

    columns: dict[str, Any] = {name: list(header["buffers"][name]) for name in _TEXT_COLUMNS}
    columns["shape"] = [None if shape is None else tuple(shape) for shape in columns["shape"]]
    columns |= {name: _read_column(archive, f"buffers/{name}", kind) for name, kind in _NUMBER_COLUMNS.items()}
    if "buffers/address.npy" in members:
        columns["address"] = _read_column(archive, "buffers/address", "int64")
    curve: dict[str, Any] = {
        name: _read_column(archive, f"curve/{name}", kind) for name, kind in _CURVE_COLUMNS.items()
    }
    # Kinds are stored with their names, so that a later version may add or reorder them.
    position = np.array([KINDS.index(kind) for kind in header["kinds"]], np.uint8)
    columns["kind"] = position[columns["kind"]]
    return Tide(
        target=header["target"],
        method=header["method"],
        batch_size=header["batch_size"],
        peak_bytes=int(header["peak_bytes"]),
        safe_bytes=int(header["safe_bytes"]),
        buffers=Buffers(**columns),
        curve=Curve(**curve, nodes=list(header["nodes"])),
        building=Building(**header["building"]),
        unmodelled=tuple(Unmodelled(**op) for op in header["unmodelled"]),
        notes=tuple(header["notes"]),
        recording=_recording(header.get("recording")),
    )


def _recording(stored: dict[str, Any] | None) -> Recording | None:
    from lowtide.tide.tide import Recording, StepPeak

    if stored is None:
        return None
    return Recording(**{**stored, "steps": tuple(StepPeak(**step) for step in stored["steps"])})


def _write_column(archive: zipfile.ZipFile, name: str, column: npt.NDArray[Any], kind: str) -> None:
    member = io.BytesIO()
    np.lib.format.write_array(member, np.ascontiguousarray(column, dtype=kind), allow_pickle=False)
    archive.writestr(f"{name}.npy", member.getvalue())


def _read_column(archive: zipfile.ZipFile, name: str, kind: str) -> npt.NDArray[Any]:
    column: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
    if column.dtype != np.dtype(kind) or column.ndim != 1:
        raise ValueError(f"{name} is {column.dtype} of {column.ndim} dimensions")
    return column


def _not_a_tide(path: str | PathLike[str], why: str) -> LowtideError:
    return LowtideError(
        f"not a tide: {why}", given=fspath(path), cure="give a file written by tide.save() or lowtide predict --save"
    )
