"""Arrays in HDF5 and Zarr: memory-mapped where they are contiguous, otherwise read chunk by chunk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.errors import LowtideError
from lowtide.feed.readers.array_files import ArrayFile, choose_array, from_rows, native_type
from lowtide.feed.readers.samples import Indices, Rows

# The number of rows, spread over the array, in which the longest text is looked for.
_SAMPLED_ROWS = 64

# A chunk is in memory as it is stored, decoded, and once more while the decoder enlarges its output.
_CHUNK_TIMES = 3


def open_hdf5(path: str, inner: str, role: str) -> ArrayFile:
    import h5py

    # Chunks are read once and kept as blocks: HDF5 needs no cache for them.
    file = h5py.File(path, "r", rdcc_nbytes=0)
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) and item.shape else None)
    name = choose_array(path, inner, role, names)
    return from_hdf5(file[name], f"{path}:{name}")


def from_hdf5(dataset: Any, name: str) -> ArrayFile:
    import h5py

    if dataset.shape is None:
        raise LowtideError(f"{name} is empty", given="no shape", cure="give an array with rows")
    shape, dtype = tuple(dataset.shape), dataset.dtype
    text_bytes = None
    if h5py.check_string_dtype(dtype) is not None and dtype.hasobject:
        text_bytes = _longest_text(dataset, shape)
    elif (mapped := _map_hdf5(dataset)) is not None:
        return from_rows(mapped, name)
    block = 1 if dataset.chunks is None else max(min(int(dataset.chunks[0]), shape[0]), 1)

    def read(indices: Indices, out: Rows) -> None:
        if _are_consecutive(indices):
            dataset.read_direct(out, np.s_[int(indices[0]) : int(indices[-1]) + 1])
            return
        # HDF5 takes indices in ascending order and without repetition.
        distinct, which = np.unique(indices, return_inverse=True)
        np.take(dataset[distinct], which, axis=0, out=out, mode="clip")

    chunk_bytes = 0 if dataset.chunks is None else int(np.prod(dataset.chunks, dtype=np.int64)) * dtype.itemsize
    return ArrayFile(
        name, shape, native_type(dtype), block, read,
        text_bytes=text_bytes, loading_bytes=_CHUNK_TIMES * chunk_bytes,
    )  # fmt: skip


def _are_consecutive(indices: Indices) -> bool:
    return bool((np.diff(indices) == 1).all())


def _map_hdf5(dataset: Any) -> Rows | None:
    """Map the rows of a dataset that is contiguous and unfiltered in its file; None if it is not."""
    offset = None if dataset.is_virtual or dataset.external else dataset.id.get_offset()
    if offset is None or dataset.dtype.hasobject or not dataset.size or dataset.file.driver != "sec2":
        return None
    try:
        rows = np.memmap(dataset.file.filename, dataset.dtype, "r", offset, dataset.shape)
    except (OSError, ValueError):
        return None
    # HDF5 stores some types differently from NumPy: compare one row.
    return rows if np.asarray(rows[-1]).tobytes() == np.asarray(dataset[-1]).tobytes() else None


def is_zarr(path: str) -> bool:
    """Whether a path is that of a Zarr array or group."""
    folder = Path(path)
    files = ("zarr.json", ".zarray", ".zgroup")
    return folder.name.lower().endswith((".zarr", ".zarr.zip")) or any((folder / name).exists() for name in files)


def open_zarr(path: str, inner: str, role: str) -> ArrayFile:
    import zarr

    store: Any = zarr.storage.ZipStore(path, mode="r") if Path(path).is_file() else path
    try:
        opened = zarr.open(store, mode="r")
    except FileNotFoundError as error:
        raise LowtideError(f"there is no array and no group of Zarr in {path}", cure="check the path") from error
    if hasattr(opened, "shape"):
        return from_zarr(opened, path)
    names = sorted(name for name, item in opened.members(max_depth=None) if hasattr(item, "shape"))
    name = choose_array(path, inner, role, names)
    return from_zarr(opened[name], f"{path}:{name}")


def from_zarr(array: Any, name: str) -> ArrayFile:
    shape, dtype = tuple(array.shape), np.dtype(array.dtype)
    # TensorFlow does not know NumPy's StringDType, which has texts of variable length.
    is_text = dtype.kind == "T"
    text_bytes = _longest_text(array, shape) if is_text else None
    block = max(min(int(array.chunks[0]), shape[0]), 1) if shape else 1

    def read(indices: Indices, out: Rows) -> None:
        if _are_consecutive(indices):
            out[...] = array[int(indices[0]) : int(indices[-1]) + 1]
        else:
            out[...] = array.get_orthogonal_selection((indices,))

    kind = np.dtype(object) if is_text else native_type(dtype)
    opened = ArrayFile(name, shape, kind, block, read, text_bytes=text_bytes)
    # Zarr decodes all chunks of a block at the same time, and then copies them to an array of its own.
    return replace(opened, loading_bytes=(_CHUNK_TIMES + 1) * block * opened.row_bytes)


def _longest_text(array: Any, shape: tuple[int, ...]) -> int:
    """The approximate size of the longest text in bytes."""
    if not shape or not shape[0]:
        return 0
    longest = 0
    for row in np.unique(np.linspace(0, shape[0] - 1, _SAMPLED_ROWS).astype(int)).tolist():
        texts = np.asarray(array[row], object).ravel()
        longest = max([longest, *(len(text if isinstance(text, bytes) else str(text).encode()) for text in texts)])
    return longest
