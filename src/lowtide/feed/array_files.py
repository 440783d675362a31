"""Arrays that lie in files, row by row, without loading them: .npy, .npz, HDF5 and Zarr."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from lowtide.errors import LowtideError
from lowtide.feed.order import Places

Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class ArrayFile:
    """An array whose rows are samples."""

    name: str
    """What to call it in a message."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    block: int
    """How many rows have to be read at once: 1 where each can be read by itself."""
    read: Callable[[Places, Rows], None]
    """Put the rows of some numbers, in that order, into an array."""

    @property
    def row_bytes(self) -> int:
        """What one row takes."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize


def open_array(given: Any, role: str) -> ArrayFile:
    """The array that a path, or an object with rows, stands for; `role` is its name where a file has several."""
    if isinstance(given, str | PathLike):
        found = _open_path(fspath(given), role)
    elif _is_kind(given, "h5py", "Dataset"):
        found = _from_hdf5(given, f"{given.file.filename}:{given.name}")
    elif _is_kind(given, "zarr", "Array"):
        found = _from_zarr(given, str(getattr(given, "store_path", given.name)))
    elif hasattr(given, "shape") and hasattr(given, "dtype"):
        found = _from_rows(np.asanyarray(given), role)
    else:
        raise LowtideError(
            f"{role} is no array",
            given=type(given).__name__,
            cure="give a path of a .npy, .npz, .h5 or .zarr, or an array",
        )
    if not found.shape:
        raise LowtideError(f"{found.name} is a single number, not rows", given=found.shape, cure="give an array")
    if found.dtype.hasobject:
        raise LowtideError(
            f"{found.name} holds Python objects, which cannot be mapped", given=found.dtype, cure="save it as numbers"
        )
    return found


def _open_path(given: str, role: str) -> ArrayFile:
    path, inner = _split(given)
    if not Path(path).exists():
        raise LowtideError(f"there is no file for {role}", given=path, cure="check the path")
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".npy":
            return _from_rows(np.load(path, mmap_mode="r"), path)
        if suffix == ".npz":
            return _open_npz(path, inner, role)
        if suffix in (".h5", ".hdf5", ".hdf"):
            return _open_hdf5(path, inner, role)
        if suffix == ".zarr" or (Path(path).is_dir() and (Path(path) / "zarr.json").exists()):
            return _open_zarr(path, inner, role)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise LowtideError(f"{path} cannot be read: {error}", cure="write it again; it may be cut off") from error
    raise LowtideError(
        f"{role} is in a file of a kind that is not known", given=path, cure="use .npy, .npz, .h5 or .zarr"
    )


def _split(given: str) -> tuple[str, str]:
    """A path, and the name of what is meant in it: `set.h5:train/images`."""
    path, colon, inner = given.rpartition(":")
    # A colon in the folder's name, or a drive's, is none of ours.
    return (path, inner) if colon and Path(path).suffix and not Path(given).exists() else (given, "")


def _from_rows(rows: Rows, name: str) -> ArrayFile:
    """An array in memory or mapped: taking rows of a mapped one reads those alone."""
    plain = rows.view(np.ndarray)

    def read(places: Places, out: Rows) -> None:
        # With another mode NumPy would write to a copy first. All places are within.
        plain.take(places, axis=0, out=out, mode="clip")

    return ArrayFile(name, tuple(rows.shape), rows.dtype, 1, read)


def _open_npz(path: str, inner: str, role: str) -> ArrayFile:
    with zipfile.ZipFile(path) as archive:
        names = {Path(info.filename).stem: info for info in archive.infolist() if info.filename.endswith(".npy")}
        info = names[_choose(path, inner, role, list(names))]
        name = f"{path}:{Path(info.filename).stem}"
        if info.compress_type != zipfile.ZIP_STORED:
            raise LowtideError(
                f"{name} is compressed and cannot be read row by row",
                cure="write it with np.savez instead of np.savez_compressed, or as .npy",
            )
        with archive.open(info) as member:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, in_columns, dtype = read(member)
            header = member.tell()
    with open(path, "rb") as file:
        # A stored member lies in the archive as it is, behind a header of its own.
        file.seek(info.header_offset)
        name_bytes, extra_bytes = struct.unpack("<26x2H", file.read(30))
    first = info.header_offset + 30 + name_bytes + extra_bytes + header
    if dtype.hasobject:
        return ArrayFile(name, shape, dtype, 1, lambda places, out: None)
    rows = np.memmap(path, dtype, "r", first, shape, "F" if in_columns else "C")
    return _from_rows(rows, name)


def _open_hdf5(path: str, inner: str, role: str) -> ArrayFile:
    import h5py

    file = h5py.File(path, "r")
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) and item.shape else None)
    name = _choose(path, inner, role, names)
    return _from_hdf5(file[name], f"{path}:{name}")


def _from_hdf5(dataset: Any, name: str) -> ArrayFile:
    shape, dtype = tuple(dataset.shape), dataset.dtype
    block = 1 if dataset.chunks is None else int(dataset.chunks[0])

    def read(places: Places, out: Rows) -> None:
        low, high = int(places[0]), int(places[-1]) + 1
        if high - low == len(places) and (np.diff(places) == 1).all():
            dataset.read_direct(out, np.s_[low:high])
            return
        # HDF5 takes rows in ascending order, each once.
        distinct, which = np.unique(places, return_inverse=True)
        np.take(dataset[distinct], which, axis=0, out=out, mode="clip")

    return ArrayFile(name, shape, dtype, block, read)


def _open_zarr(path: str, inner: str, role: str) -> ArrayFile:
    import zarr

    opened = zarr.open(path, mode="r")
    if not hasattr(opened, "shape"):
        names = [name for name, _ in opened.arrays()]
        name = _choose(path, inner, role, names)
        return _from_zarr(opened[name], f"{path}:{name}")
    return _from_zarr(opened, path)


def _from_zarr(array: Any, name: str) -> ArrayFile:
    def read(places: Places, out: Rows) -> None:
        low, high = int(places.min()), int(places.max()) + 1
        if high - low == len(places) and (np.diff(places) == 1).all():
            out[...] = array[low:high]
        else:
            out[...] = array.get_orthogonal_selection((places,))

    return ArrayFile(name, tuple(array.shape), np.dtype(array.dtype), int(array.chunks[0]), read)


def _choose(path: str, inner: str, role: str, names: list[str]) -> str:
    """The one that was named, the only one, or the one that is called as the role."""
    if inner:
        wanted = [name for name in names if name.strip("/") == inner.strip("/")]
    else:
        wanted = names if len(names) == 1 else [name for name in names if name == role]
    if not wanted:
        listed = ", ".join(names[:8]) or "none"
        raise LowtideError(
            f"which array of {path} is {role}?",
            given=inner or role,
            cure=f"name it, as in {path}:NAME; it has {listed}",
        )
    return wanted[0]


def _is_kind(given: Any, module: str, kind: str) -> bool:
    """Whether an object is of a class of a library that need not be there."""
    return any(each.__name__ == kind and each.__module__.split(".")[0] == module for each in type(given).__mro__)
