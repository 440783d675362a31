"""The data: sparse array files, photographs, tables and records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

# The ways to feed.
LOWTIDE, TUNED, GENERATOR, SLICES, CONSTANT = (
    "lowtide",
    "tuned by hand",
    "generator",
    "from_tensor_slices",
    "tf.constant",
)
# Variants of these, to explain differences.
LOWTIDE_WHOLE, LOWTIDE_SMALL, TUNED_RATIO = 'lowtide, decode="whole"', "lowtide, 64 MiB", "tuned by hand, with ratio"

IMAGE = (64, 64, 3)
IMAGE_BYTES = 4 * 64 * 64 * 3
PHOTO = (480, 640, 3)
PHOTOS = 1_500
COLUMNS, ROWS, GROUP = 12, 3_000_000, 100_000


def sparse_arrays(folder: Path, gibibytes: float) -> tuple[Path, Path]:
    """Images and labels of a given size in GiB; the images are a sparse file, which reads as zeros."""
    count = int(gibibytes * 2**30 / IMAGE_BYTES)
    images, labels = folder / f"images-{gibibytes}.npy", folder / f"labels-{gibibytes}.npy"
    if not images.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.lib.format.open_memmap(images, "w+", np.float32, (count, *IMAGE))
        np.save(labels, np.arange(count) % 10)
    return images, labels


def dense_arrays(folder: Path, count: int = 12_000) -> tuple[Path, Path]:
    """Images and labels that occupy space on the disk."""
    images, labels = folder / "dense.npy", folder / "dense-labels.npy"
    if not images.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(images, np.random.default_rng(0).random((count, *IMAGE), np.float32))
        np.save(labels, np.arange(count) % 10)
    return images, labels


def photos(folder: Path) -> Path:
    """JPEG files in two folders: smooth pictures with some noise, of about the size of photographs."""
    import tensorflow as tf

    root = folder / "photos"
    if not (root / "done").exists():
        random = np.random.default_rng(0)
        height, width, _ = PHOTO
        slope = np.linspace(0, 1, height)[:, None, None] + np.linspace(0, 1, width)[None, :, None]
        for number in range(PHOTOS):
            picture = slope * random.random(3) * 110 + random.random(PHOTO) * 30
            path = root / "ab"[number % 2] / f"{number:05d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tf.io.encode_jpeg(picture.astype(np.uint8)).numpy())
        (root / "done").touch()
    return root


def table(folder: Path) -> Path:
    """Three Parquet files of numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root = folder / "table"
    if not (root / "done").exists():
        root.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(0)
        for file in range(3):
            columns = {f"c{column}": random.random(ROWS // 3, np.float32) for column in range(COLUMNS)}
            columns["clicked"] = random.integers(0, 2, ROWS // 3)
            pq.write_table(pa.table(columns), root / f"part-{file}.parquet", row_group_size=GROUP)
        (root / "done").touch()
    return root


def record_files(folder: Path, files: int = 6, records: int = 1_000) -> list[Path]:
    """TFRecord files of examples with 25,000 numbers each."""
    import tensorflow as tf

    root = folder / "records"
    paths = [root / f"{number}.tfrecord" for number in range(files)]
    if not (root / "done").exists():
        root.mkdir(parents=True, exist_ok=True)
        numbers = np.random.default_rng(0).random(25_000, np.float32)
        feature = tf.train.Feature(float_list=tf.train.FloatList(value=numbers))
        example = tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString()
        for path in paths:
            with tf.io.TFRecordWriter(str(path)) as writer:
                for _ in range(records):
                    writer.write(example)
        (root / "done").touch()
    return paths


def chunked_hdf5(folder: Path) -> Path:
    """Rows in chunks of 50, compressed by gzip."""
    return _hdf5(folder / "chunked.h5", (6_000, 64, 64), (50, 64, 64))


def large_chunks_hdf5(folder: Path) -> Path:
    """Rows in chunks of 4 MiB, compressed by gzip."""
    return _hdf5(folder / "large-chunks.h5", (8_000, 64, 64), (256, 64, 64))


def _hdf5(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Path:
    import h5py

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = np.random.default_rng(0).random(shape, np.float32)
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=rows, chunks=chunks, compression="gzip", compression_opts=1)
    return path


def chunked_zarr(folder: Path) -> Path:
    """Rows in chunks of 50."""
    import zarr

    path = folder / "chunked.zarr"
    if not path.exists():
        rows = np.random.default_rng(0).random((6_000, 64, 64), np.float32)
        zarr.create_array(path, data=rows, chunks=(50, 64, 64))
    return path


def compressed_npz(folder: Path) -> Path:
    """One compressed array."""
    path = folder / "packed.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, x=np.zeros((12_000, *IMAGE), np.float32))
    return path


def large_photos(folder: Path) -> list[Path]:
    """JPEG files whose decoded images take 3 MiB each."""
    import tensorflow as tf

    root = folder / "large-photos"
    paths = [root / f"{number}.jpg" for number in range(60)]
    if not paths[-1].exists():
        root.mkdir(parents=True, exist_ok=True)
        down, across = np.linspace(0, 6, 900)[:, None], np.linspace(0, 6, 1_200)[None, :]
        waves = [np.sin(down + each) * np.cos(across - each) for each in range(3)]
        content = tf.io.encode_jpeg((128 + 100 * np.stack(waves, -1)).astype(np.uint8)).numpy()
        for path in paths:
            path.write_bytes(content)
    return paths
