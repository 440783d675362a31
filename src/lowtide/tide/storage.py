"""The `.tide` file: a zip of one JSON header and one `.npy` member for each numeric column."""

from __future__ import annotations

import io
from dataclasses import asdict
from os import PathLike, fspath
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lowtide.tide.archive import FileFormat, Read
from lowtide.tide.columns import (
    NUMBER_COLUMNS,
    TEXT_COLUMNS,
    Buffers,
    Building,
    Curve,
    OpTimes,
    ProcessMemory,
    Recording,
    StepPeak,
    TideColumns,
    Unmodelled,
)
from lowtide.tide.kinds import KINDS
from lowtide.tide.owner import Owner

_Tide = TypeVar("_Tide", bound=TideColumns)

_FILE = FileFormat("tide", 1, "tide.save() or lowtide predict --save", "predict again")

_CURVE_COLUMNS = {"bytes_in_use": "int64", "node": "int32"}
_TIMES = "times/duration_us"


def save(tide: TideColumns, path: str | PathLike[str]) -> None:
    """Write `tide` to `path`."""
    _FILE.write(path, to_bytes(tide))


def load(path: str | PathLike[str], tide_class: type[_Tide]) -> _Tide:
    """Read the tide in `path`."""
    return from_bytes(_FILE.read(path), fspath(path), tide_class)


def to_bytes(tide: TideColumns) -> bytes:
    """Return the content of the file of a tide."""
    header = {
        "target": tide.target,
        "method": tide.method,
        "batch_size": tide.batch_size,
        "peak_bytes": tide.peak_bytes,
        "safe_bytes": tide.safe_bytes,
        "highest_bytes": tide.highest_bytes,
        "kinds": KINDS,
        "building": asdict(tide.building),
        "unmodelled": [asdict(op) for op in tide.unmodelled],
        "notes": tide.notes,
        "recording": None if tide.recording is None else asdict(tide.recording),
        "nodes": tide.curve.nodes,
        "buffers": {column: getattr(tide.buffers, column) for column in TEXT_COLUMNS},
        "timed_nodes": None if tide.times is None else tide.times.node,
    }
    columns = {f"buffers/{name}": (getattr(tide.buffers, name), kind) for name, kind in NUMBER_COLUMNS.items()}
    if tide.buffers.address is not None:
        columns["buffers/address"] = tide.buffers.address, "int64"
    columns |= {f"curve/{name}": (getattr(tide.curve, name), kind) for name, kind in _CURVE_COLUMNS.items()}
    if tide.times is not None:
        columns[_TIMES] = tide.times.duration_us, "float32"
    return _FILE.pack(header, {f"{name}.npy": _pack_column(*column) for name, column in columns.items()})


def from_bytes(content: bytes, given: object, tide_class: type[_Tide]) -> _Tide:
    """Return the tide that `to_bytes` packed; errors refer to it as `given`."""
    return _FILE.unpack(content, given, lambda *parts: tide_class(**_fields(*parts)))


def _fields(header: dict[str, Any], members: frozenset[str], read: Read) -> dict[str, Any]:
    columns: dict[str, Any] = {name: list(header["buffers"][name]) for name in TEXT_COLUMNS}
    columns["shape"] = [None if shape is None else tuple(shape) for shape in columns["shape"]]
    columns |= {name: _read_column(read, f"buffers/{name}", kind) for name, kind in NUMBER_COLUMNS.items()}
    # Files of earlier versions have no addresses, recording, times or highest peak.
    if "buffers/address.npy" in members:
        columns["address"] = _read_column(read, "buffers/address", "int64")
    curve: dict[str, Any] = {name: _read_column(read, f"curve/{name}", kind) for name, kind in _CURVE_COLUMNS.items()}
    # Kinds are stored with their names, so that a later version may add or reorder them.
    position = np.array([KINDS.index(kind) for kind in header["kinds"]], np.uint8)
    columns["kind"] = position[columns["kind"]]
    return dict(
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
        times=_times(header.get("timed_nodes"), read),
        highest_bytes=header.get("highest_bytes"),
    )


def _recording(stored: dict[str, Any] | None) -> Recording | None:
    if stored is None:
        return None
    steps = tuple(StepPeak(**step) for step in stored["steps"])
    # Files of earlier versions do not have the memory of the process.
    return Recording(**{**stored, "steps": steps, "process": process_memory(stored.get("process"))})


def process_memory(stored: dict[str, Any] | None) -> ProcessMemory | None:
    """Return the memory of a process from its plain data."""
    if stored is None:
        return None
    return ProcessMemory(**{**stored, "arrays": tuple(Owner.from_dict(each) for each in stored["arrays"])})


def _times(nodes: list[str] | None, read: Read) -> OpTimes | None:
    return None if nodes is None else OpTimes(list(nodes), _read_column(read, _TIMES, "float32"))


def _pack_column(column: npt.NDArray[Any], kind: str) -> bytes:
    member = io.BytesIO()
    np.lib.format.write_array(member, np.ascontiguousarray(column, dtype=kind), allow_pickle=False)
    return member.getvalue()


def _read_column(read: Read, name: str, kind: str) -> npt.NDArray[Any]:
    column: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(read(f"{name}.npy")), allow_pickle=False)
    if column.dtype != np.dtype(kind) or column.ndim != 1:
        raise ValueError(f"{name} is {column.dtype} of {column.ndim} dimensions")
    return column
