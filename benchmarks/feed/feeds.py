"""Datasets of lt.feed over all kinds of files, each with a budget that its data exceeds several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import lowtide as lt
from benchmarks.feed import sets


class BudgetedFeed(NamedTuple):
    """A dataset within a budget."""

    budget: str
    make: Callable[[Path, str], tf.data.Dataset]


def _arrays(path: Callable[[Path], Any], batch_size: int, **more: Any) -> Callable[[Path, str], tf.data.Dataset]:
    return lambda folder, budget: lt.feed.arrays(str(path(folder)), batch_size=batch_size, budget=budget, **more)


def _images(batch_size: int, side: int, **more: Any) -> Callable[[Path, str], tf.data.Dataset]:
    return lambda folder, budget: lt.feed.images(
        sets.photos(folder), size=(side, side), batch_size=batch_size, budget=budget, **more
    )


def _large_images(folder: Path, budget: str) -> tf.data.Dataset:
    paths = [str(path) for path in sets.large_photos(folder)] * 4
    return lt.feed.images(paths, size=(256, 256), batch_size=16, shuffle=True, decode="whole", budget=budget)


def _records(folder: Path, budget: str) -> tf.data.Dataset:
    features = {"x": tf.io.FixedLenFeature((25_000,), tf.float32)}
    paths = [str(path) for path in sets.record_files(folder)]
    return lt.feed.records(paths, features=features, batch_size=32, shuffle=True, budget=budget)


def _table(folder: Path, budget: str) -> tf.data.Dataset:
    pattern = sets.table(folder) / "*.parquet"
    return lt.feed.table(pattern, label="clicked", batch_size=4_096, shuffle=True, budget=budget)


def _generator(folder: Path, budget: str) -> tf.data.Dataset:
    def make() -> Iterator[np.ndarray]:
        for number in range(3_000):
            yield np.full((128, 128), number, np.float32)

    spec = tf.TensorSpec((128, 128), tf.float32)
    return lt.feed.generator(make, spec, batch_size=32, shuffle=True, budget=budget)


FEEDS = {
    "chunked HDF5, shuffled": BudgetedFeed("64MiB", _arrays(sets.chunked_hdf5, 32, shuffle=True)),
    "chunked HDF5, in order": BudgetedFeed("64MiB", _arrays(sets.chunked_hdf5, 32)),
    "chunked HDF5, large chunks": BudgetedFeed("192MiB", _arrays(sets.large_chunks_hdf5, 64, shuffle=True)),
    "chunked Zarr": BudgetedFeed("64MiB", _arrays(sets.chunked_zarr, 32, shuffle=True)),
    "npy, shuffled": BudgetedFeed("48MiB", _arrays(lambda folder: sets.dense_arrays(folder)[0], 64, shuffle=True)),
    "npz, compressed": BudgetedFeed("48MiB", _arrays(sets.compressed_npz, 64, shuffle=True)),
    "images, scaled": BudgetedFeed("96MiB", _images(32, 224, shuffle=True)),
    "images, whole, skip": BudgetedFeed("96MiB", _images(16, 224, shuffle=True, decode="whole", on_error="skip")),
    "large images, whole": BudgetedFeed("128MiB", _large_images),
    "records": BudgetedFeed("96MiB", _records),
    "table": BudgetedFeed("64MiB", _table),
    "generator": BudgetedFeed("64MiB", _generator),
}


def warm_up(folder: Path) -> None:
    """Use each kind of reader once: the libraries and kernels that are loaded belong to the process."""
    import h5py  # noqa: F401
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr  # noqa: F401

    small_table = folder / "small.parquet"
    pq.write_table(pa.table({"x": np.zeros(64, np.float32)}), small_table)
    photos = [str(path) for path in sets.large_photos(folder)][:4]
    small = [
        lt.feed.arrays(np.zeros((64, 4), np.float32), batch_size=8, shuffle=True, budget="1MiB"),
        lt.feed.images(photos, size=(8, 8), batch_size=1, budget="64MiB"),
        lt.feed.table(small_table, batch_size=8, shuffle=True, budget="1MiB"),
    ]
    for data in small:
        for _ in data:
            pass
