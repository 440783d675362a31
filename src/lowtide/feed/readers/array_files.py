"""Arrays that lie in files, row by row, without loading them: .npy, .npz, HDF5 and Zarr."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.order import Places
from lowtide.feed.readers.unpacked_files import Unpacked, member_pieces, unpacked_once

Rows = npt.NDArray[Any]

# What a text takes besides its bytes.
TEXT_BYTES = 24
# Rows that do not lie in one piece are copied so many at a time.
_COPIED = 256


@dataclass(frozen=True)
class ArrayFile:
    """An array whose rows are samples."""

    name: str
    """What to call it in a message."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    """In the order of bytes that this machine has; of texts of any length it is object."""
    block: int
    """How many rows have to be read at once: 1 where each can be read by itself."""
    read: Callable[[Places, Rows], None]
    """Put the rows of some numbers, in that order, into an array."""
    is_mapped: bool = False
    """Whether its rows are memory, which can always be read."""
    text_bytes: int | None = None
    """About the most that a text of any length takes, where it has these."""
    unpacked: Unpacked | None = None
    """Where it was unpacked to, if it was compressed."""

    @property
    def item_bytes(self) -> int:
        """What one number or text takes."""
        if self.text_bytes is not None:
            return self.text_bytes + TEXT_BYTES
        return self.dtype.itemsize + (TEXT_BYTES if self.dtype.kind in "SU" else 0)

    @property
    def row_bytes(self) -> int:
        """What one row takes."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.item_bytes


def open_array(given: Any, role: str) -> ArrayFile:
    """The array that a path, or an object with rows, stands for; `role` is its name where a file has several."""
    from lowtide.feed.readers import chunked_files

    if isinstance(given, str | PathLike):
        found = _open_path(fspath(given), role)
    elif _is_kind(given, "h5py", "Dataset"):
        found = chunked_files.from_hdf5(given, f"{given.file.filename}:{given.name}")
    elif _is_kind(given, "zarr", "Array"):
        found = chunked_files.from_zarr(given, str(getattr(given, "store_path", given.name)))
    elif hasattr(given, "shape") and hasattr(given, "dtype"):
        found = from_rows(np.asanyarray(given), role)
    else:
        raise LowtideError(
            f"{role} is no array",
            given=type(given).__name__,
            cure="give a path of a .npy, .npz, .h5 or .zarr, or an array",
        )
    _check(found)
    return found


def _check(found: ArrayFile) -> None:
    """Refuse what has no rows, or rows of which TensorFlow can make nothing."""
    kind = found.dtype
    if not found.shape:
        raise LowtideError(f"{found.name} is a single number, not rows", given=found.shape, cure="give an array")
    if kind.names is not None:
        raise LowtideError(
            f"{found.name} has several values in each row",
            given=", ".join(kind.names),
            cure=f'give each as an array of its own, such as np.load(path, mmap_mode="r")["{kind.names[0]}"] of a .npy',
        )
    if kind.hasobject and found.text_bytes is None:
        raise LowtideError(
            f"{found.name} holds Python objects, which cannot be mapped",
            given=kind,
            cure='save it as numbers, or texts with astype("S")',
        )
    if kind.kind in "mM":
        raise LowtideError(f"{found.name} holds times", given=kind, cure='give them as numbers: rows.view("int64")')
    if kind.type in (np.longdouble, np.clongdouble, np.void):
        raise LowtideError(f"{found.name} holds what TensorFlow has no type for", given=kind, cure="convert it first")


def _open_path(given: str, role: str) -> ArrayFile:
    from lowtide.feed.readers import chunked_files

    path, inner = _split(given)
    if not Path(path).exists():
        raise LowtideError(f"there is no file for {role}", given=path, cure="check the path")
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".npy":
            return from_rows(np.load(path, mmap_mode="r"), path)
        if suffix == ".npz":
            return _open_npz(path, inner, role)
        if suffix in (".h5", ".hdf5", ".hdf"):
            return chunked_files.open_hdf5(path, inner, role)
        if chunked_files.is_zarr(path):
            return chunked_files.open_zarr(path, inner, role)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise LowtideError(f"{path} cannot be read: {error}", cure="write it again; it may be cut off") from error
    raise LowtideError(
        f"{role} is in a file of a kind that is not known", given=path, cure="use .npy, .npz, .h5 or .zarr"
    )


def _split(given: str) -> tuple[str, str]:
    """A path, and the name of what is meant in it: `set.h5:train/images`."""
    path, colon, inner = given.rpartition(":")
    # A colon in the folder's name, or a drive's, is none of ours.
    is_ours = colon and (Path(path).suffix or Path(path).is_dir()) and not Path(given).exists()
    return (path, inner) if is_ours else (given, "")


def from_rows(rows: Rows, name: str, unpacked: Unpacked | None = None) -> ArrayFile:
    """An array in memory or mapped: taking rows of a mapped one reads those alone."""
    plain = rows.view(np.ndarray)
    native = native_type(plain.dtype)
    # NumPy would copy all of an array that is not in one piece, or not aligned as its numbers are, to take rows of it.
    # As bytes they are always aligned.
    is_bytes = plain.flags.c_contiguous and plain.ndim and plain.size and not plain.dtype.hasobject
    raw = plain.reshape(len(plain), -1).view(np.uint8) if is_bytes else None

    def read(places: Places, out: Rows) -> None:
        if raw is not None:
            # With another mode NumPy would write to a copy first. All places are within.
            raw.take(places, axis=0, out=out.reshape(len(out), -1).view(np.uint8), mode="clip")
            if plain.dtype != native:
                out.byteswap(inplace=True)
            return
        for low in range(0, len(places), _COPIED):
            out[low : low + _COPIED] = plain[places[low : low + _COPIED]]

    return ArrayFile(name, tuple(rows.shape), native, 1, read, is_mapped=True, unpacked=unpacked)


def native_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same type in the order of bytes that this machine has, which TensorFlow expects."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _open_npz(path: str, inner: str, role: str) -> ArrayFile:
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        names = {info.filename.removesuffix(".npy"): info for info in members}
        chosen = choose(path, inner, role, list(names))
        info, name = names[chosen], f"{path}:{chosen}"
        if info.compress_type != zipfile.ZIP_STORED:
            return _map_unpacked(archive, info, path, name)
        with archive.open(info) as member:
            shape, in_columns, dtype, header = _read_header(member)
    with open(path, "rb") as file:
        # A stored member lies in the archive as it is, behind a header of its own.
        file.seek(info.header_offset)
        name_bytes, extra_bytes = struct.unpack("<26x2H", file.read(30))
        first = info.header_offset + 30 + name_bytes + extra_bytes + header
        return from_rows(_map(file, dtype, first, shape, in_columns), name)


def _map_unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, name: str) -> ArrayFile:
    def make() -> Unpacked:
        unpacked = Unpacked()
        unpacked.add(member_pieces(archive, info, name), name, info.file_size)
        return unpacked

    unpacked = unpacked_once([path], info.filename, make)
    unpacked.file.seek(0)
    shape, in_columns, dtype, header = _read_header(unpacked.file)
    return from_rows(_map(unpacked.file, dtype, header, shape, in_columns), name, unpacked)


def _read_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """The shape of an array, whether it lies column by column, its type, and how many bytes come before it."""
    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, in_columns, dtype = read(member)
    return shape, in_columns, dtype, member.tell()


def _map(file: BinaryIO, dtype: np.dtype[Any], first: int, shape: tuple[int, ...], in_columns: bool) -> Rows:
    if dtype.hasobject:
        # It is refused by its type.
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "r", first, shape, "F" if in_columns else "C")


def choose(path: str, inner: str, role: str, names: list[str]) -> str:
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
