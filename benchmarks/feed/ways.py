"""The ways to feed: lowtide's, a pipeline tuned by hand, and what tutorials show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import lowtide as lt
from benchmarks.feed import sets
from benchmarks.feed.sets import (
    CONSTANT,
    GENERATOR,
    LOWTIDE,
    LOWTIDE_SMALL,
    LOWTIDE_WHOLE,
    SLICES,
    TUNED_RATIO,
)

TUNE = tf.data.AUTOTUNE
SIZE = (224, 224)


def arrays(way: str, paths: tuple[Path, Path], batch_size: int, budget: str) -> tf.data.Dataset:
    """Batches of images and labels from two arrays, fully shuffled if possible."""
    images, labels = (np.load(path, mmap_mode="r") for path in paths)
    if way == LOWTIDE:
        return lt.feed.arrays(paths[0], paths[1], batch_size=batch_size, shuffle=True, seed=1, budget=budget)
    if way == SLICES:
        return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(1000).batch(batch_size).prefetch(TUNE)
    if way == CONSTANT:
        whole = tf.constant(images), tf.constant(labels)
        return tf.data.Dataset.from_tensor_slices(whole).shuffle(1000).batch(batch_size).prefetch(TUNE)

    def read(rows: Any) -> tuple[Any, Any]:
        return images[rows], labels[rows]

    def load(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        x, y = tf.numpy_function(read, [rows], [tf.float32, tf.int64])
        x.set_shape((None, *sets.IMAGE))
        y.set_shape((None,))
        return x, y

    numbers = tf.data.Dataset.range(len(images)).shuffle(len(images))
    return numbers.batch(batch_size).map(load, num_parallel_calls=TUNE).prefetch(TUNE)


def images(way: str, root: Path, batch_size: int, budget: str) -> tf.data.Dataset:
    """Batches of photographs, decoded and resized."""
    if way in (LOWTIDE, LOWTIDE_WHOLE):
        decode = "scaled" if way == LOWTIDE else "whole"
        return lt.feed.images(
            root, size=SIZE, batch_size=batch_size, shuffle=True, seed=1, budget=budget, decode=decode
        )
    paths = sorted(str(path) for path in root.rglob("*.jpg"))
    labels = [0 if "/a/" in path else 1 for path in paths]

    # All photographs have the same size, so the ratio for libjpeg can be hard-coded.
    ratio = 2 if way == TUNED_RATIO else 1

    def load(path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = tf.io.decode_jpeg(tf.io.read_file(path), 3, ratio=ratio)
        return tf.image.resize(image, SIZE), label

    if way == GENERATOR:

        def make() -> Any:
            for path, label in zip(paths, labels, strict=True):
                image, _ = load(tf.constant(path), label)
                yield image.numpy(), label

        spec = (tf.TensorSpec((*SIZE, 3), tf.float32), tf.TensorSpec((), tf.int32))
        return tf.data.Dataset.from_generator(make, output_signature=spec).batch(batch_size)
    files = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths))
    return files.map(load, num_parallel_calls=TUNE).batch(batch_size).prefetch(TUNE)


def table(way: str, root: Path, batch_size: int, budget: str) -> tf.data.Dataset:
    """Batches of rows, as a dict of columns and the label."""
    if way in (LOWTIDE, LOWTIDE_SMALL):
        room = budget if way == LOWTIDE else "64MiB"
        return lt.feed.table(
            root / "*.parquet", label="clicked", batch_size=batch_size, shuffle=True, seed=1, budget=room
        )
    import pyarrow.parquet as pq

    names = [f"c{column}" for column in range(sets.COLUMNS)]
    groups = [
        (str(path), group)
        for path in sorted(root.glob("*.parquet"))
        for group in range(pq.ParquetFile(path).num_row_groups)
    ]
    random = np.random.default_rng()

    def read(path: bytes, group: np.int64) -> list[Any]:
        content = pq.ParquetFile(path.decode(), memory_map=True).read_row_group(int(group), [*names, "clicked"])
        # The rows of a group are shuffled together and then split into batches: one by one takes twenty times as long.
        order = random.permutation(content.num_rows)
        return [content.column(name).to_numpy().take(order) for name in (*names, "clicked")]

    def load(path: tf.Tensor, group: tf.Tensor) -> tf.data.Dataset:
        columns = tf.numpy_function(read, [path, group], [tf.float32] * len(names) + [tf.int64])
        for column in columns:
            column.set_shape((None,))

        def cut(low: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
            *inputs, label = [column[low : low + batch_size] for column in columns]
            return dict(zip(names, inputs, strict=True)), label

        return tf.data.Dataset.range(0, tf.size(columns[0], tf.int64), batch_size).map(cut)

    parts = tf.data.Dataset.from_tensor_slices(([path for path, _ in groups], [group for _, group in groups]))
    parts = parts.shuffle(len(groups))
    return parts.interleave(load, cycle_length=2, num_parallel_calls=2, deterministic=False).prefetch(TUNE)
