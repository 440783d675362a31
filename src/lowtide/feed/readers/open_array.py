"""Open an array from a path or an object: .npy, .npz, HDF5, Zarr, or an array in memory."""

from __future__ import annotations

import struct
import zipfile
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from lowtide.errors import LowtideError
from lowtide.feed.readers.array_files import ArrayFile, choose_array, from_rows
from lowtide.feed.readers.chunked_files import from_hdf5, from_zarr, is_zarr, open_hdf5, open_zarr
from lowtide.feed.readers.samples import Rows
from lowtide.feed.readers.unpacked_files import UnpackedFile, read_member, unpack_once


def open_array(given: Any, role: str) -> ArrayFile:
    """Open a path or wrap an array; `role` is the name to look for in a file with several arrays."""
    if isinstance(given, str | PathLike):
        opened = _open_path(fspath(given), role)
    elif _is_instance(given, "h5py", "Dataset"):
        opened = from_hdf5(given, f"{given.file.filename}:{given.name}")
    elif _is_instance(given, "zarr", "Array"):
        opened = from_zarr(given, str(getattr(given, "store_path", given.name)))
    elif hasattr(given, "shape") and hasattr(given, "dtype"):
        opened = from_rows(np.asanyarray(given), role)
    else:
        raise LowtideError(
            f"{role} is not an array",
            given=type(given).__name__,
            cure="give a path of a .npy, .npz, .h5 or .zarr, or an array",
        )
    _check(opened)
    return opened


def _check(array: ArrayFile) -> None:
    """Refuse arrays without rows, and types that TensorFlow does not have."""
    dtype = array.dtype
    if not array.shape:
        raise LowtideError(f"{array.name} is a single number, not rows", given=array.shape, cure="give an array")
    if dtype.names is not None:
        raise LowtideError(
            f"{array.name} has several values in each row",
            given=", ".join(dtype.names),
            cure=f'give each as a separate array, such as np.load(path, mmap_mode="r")["{dtype.names[0]}"] of a .npy',
        )
    if dtype.hasobject and array.text_bytes is None:
        raise _of_objects(array.name)
    if dtype.kind in "mM":
        raise LowtideError(f"{array.name} holds times", given=dtype, cure='give them as numbers: rows.view("int64")')
    if dtype.type in (np.longdouble, np.clongdouble, np.void):
        raise LowtideError(f"TensorFlow has no type for {array.name}", given=dtype, cure="convert it first")


def _of_objects(name: str) -> LowtideError:
    cure = 'save it as numbers, or texts with astype("S")'
    return LowtideError(f"{name} holds Python objects, which cannot be mapped", given="object", cure=cure)


def _map_npy(path: str) -> ArrayFile:
    try:
        return from_rows(np.load(path, mmap_mode="r"), path)
    except ValueError as error:
        # NumPy has no type of error for this.
        if "Python objects" in str(error):
            raise _of_objects(path) from error
        raise


def _open_path(given: str, role: str) -> ArrayFile:
    path, inner = _split(given)
    if not Path(path).exists():
        raise LowtideError(f"there is no file for {role}", given=path, cure="check the path")
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".npy":
            return _map_npy(path)
        if suffix == ".npz":
            return _open_npz(path, inner, role)
        if suffix in (".h5", ".hdf5", ".hdf"):
            return open_hdf5(path, inner, role)
        if is_zarr(path):
            return open_zarr(path, inner, role)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise LowtideError(f"{path} cannot be read: {error}", cure="write it again; it may be truncated") from error
    raise LowtideError(f"the file of {role} has an unknown type", given=path, cure="use .npy, .npz, .h5 or .zarr")


def _split(given: str) -> tuple[str, str]:
    """Split `set.h5:train/images` into the path and the name of the array in the file."""
    path, colon, inner = given.rpartition(":")
    # The colon may also be part of a folder's name, or follow a drive letter.
    is_separator = colon and (Path(path).suffix or Path(path).is_dir()) and not Path(given).exists()
    return (path, inner) if is_separator else (given, "")


def _open_npz(path: str, inner: str, role: str) -> ArrayFile:
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        names = {info.filename.removesuffix(".npy"): info for info in members}
        chosen = choose_array(path, inner, role, list(names))
        info, name = names[chosen], f"{path}:{chosen}"
        if info.compress_type != zipfile.ZIP_STORED:
            return _open_compressed(archive, info, path, name)
        with archive.open(info) as member:
            shape, is_fortran, dtype, header_bytes = _read_header(member)
    with open(path, "rb") as file:
        # A stored member is a plain .npy in the archive, after a local header of variable length.
        file.seek(info.header_offset)
        name_bytes, extra_bytes = struct.unpack("<26x2H", file.read(30))
        first = info.header_offset + 30 + name_bytes + extra_bytes + header_bytes
        return from_rows(_map(file, dtype, first, shape, is_fortran), name)


def _open_compressed(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, name: str) -> ArrayFile:
    def unpack() -> UnpackedFile:
        unpacked = UnpackedFile()
        unpacked.append(read_member(archive, info, name), name, info.file_size)
        return unpacked

    unpacked = unpack_once([path], info.filename, unpack)
    unpacked.file.seek(0)
    shape, is_fortran, dtype, header_bytes = _read_header(unpacked.file)
    return from_rows(_map(unpacked.file, dtype, header_bytes, shape, is_fortran), name, unpacked)


def _read_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return the shape, whether the array is in Fortran order, the dtype, and the size of the header in bytes."""
    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_fortran, dtype = read(member)
    return shape, is_fortran, dtype, member.tell()


def _map(file: BinaryIO, dtype: np.dtype[Any], first: int, shape: tuple[int, ...], is_fortran: bool) -> Rows:
    if dtype.hasobject:
        # `_check` refuses it by its dtype.
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "r", first, shape, "F" if is_fortran else "C")


def _is_instance(given: Any, module: str, name: str) -> bool:
    """Whether an object is an instance of a class of a library that may not be installed."""
    return any(each.__name__ == name and each.__module__.split(".")[0] == module for each in type(given).__mro__)
