"""Pipelines as users write them, with all kinds of stages; none of them uses lt.feed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.feed import sets

Data = tf.data.Dataset
TUNE = tf.data.AUTOTUNE
Make = Callable[[Path], tf.data.Dataset]
SIDE = 512


def _plane(number: tf.Tensor) -> tf.Tensor:
    """One MiB that depends on a number."""
    return tf.zeros((SIDE, SIDE)) + tf.cast(number, tf.float32)


@cache
def _array() -> Any:
    return np.random.default_rng(0).random((2_000, 256, 100), np.float32)


@cache
def _table() -> Any:
    return np.random.default_rng(0).random((64_000, 128), np.float32)


def shuffled_photos(folder: Path) -> tf.data.Dataset:
    """Photographs, shuffled after decoding."""
    paths = sorted(str(path) for path in sets.photos(folder).rglob("*.jpg"))

    def load(path: tf.Tensor) -> tf.Tensor:
        image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), 3), (224, 224))
        return tf.ensure_shape(image, (224, 224, 3)) / 255.0

    files = Data.from_tensor_slices(paths)
    return files.map(load, num_parallel_calls=TUNE).shuffle(600).batch(32).prefetch(TUNE)


def shuffled_records(folder: Path) -> tf.data.Dataset:
    """Records of several files, shuffled before parsing."""
    paths = [str(path) for path in sets.record_files(folder)]

    def parse(content: tf.Tensor) -> tf.Tensor:
        return tf.io.parse_single_example(content, {"x": tf.io.FixedLenFeature((25_000,), tf.float32)})["x"]

    files = Data.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=TUNE)
    return files.shuffle(3_000).map(parse, num_parallel_calls=TUNE).batch(32).prefetch(2)


def slices(_: Path) -> tf.data.Dataset:
    """An array in memory, shuffled."""
    return Data.from_tensor_slices(_array()).shuffle(500).batch(32).prefetch(2)


def cached_small(_: Path) -> tf.data.Dataset:
    """Small images, cached in memory after preprocessing."""
    images = Data.range(30_000).map(
        lambda n: tf.zeros((32, 32, 3)) + tf.cast(n, tf.float32) / 255, num_parallel_calls=2
    )
    return images.cache().shuffle(2_000).batch(64).prefetch(TUNE)


def cached_large(_: Path) -> tf.data.Dataset:
    """Large elements, cached in memory, for two epochs."""
    return Data.range(300).map(_plane).cache().batch(4).repeat(2).prefetch(2)


def deep_prefetch(_: Path) -> tf.data.Dataset:
    """Large batches, many of them prefetched."""
    return Data.range(1_200).map(_plane, num_parallel_calls=2).batch(16).prefetch(16)


def many_calls(_: Path) -> tf.data.Dataset:
    """A map with more parallel calls than processors."""
    return Data.range(120).map(
        lambda n: tf.reshape(tf.tile(_plane(n), (1, 16)), (16, SIDE, SIDE)), num_parallel_calls=12
    )


def blocks_of_files(_: Path) -> tf.data.Dataset:
    """A parallel interleave with a block length."""
    return Data.range(24).interleave(
        lambda n: Data.range(60).map(lambda m: _plane(m + n)), cycle_length=4, block_length=8, num_parallel_calls=2
    )


def windows(_: Path) -> tf.data.Dataset:
    """Windows over a series, as batches."""
    rows = Data.range(4_000).map(lambda n: tf.fill((25_600,), tf.cast(n, tf.float32)))
    return rows.window(600, shift=200, drop_remainder=True).flat_map(lambda window: window.batch(600)).prefetch(1)


def padded_sequences(_: Path) -> tf.data.Dataset:
    """Sequences of several lengths, shuffled and padded."""
    lengths = Data.range(6_000).map(lambda n: tf.zeros((200 + (n * 7919) % 200, 64)))
    return lengths.shuffle(3_000).padded_batch(64, padded_shapes=(400, 64)).prefetch(4)


def zipped(_: Path) -> tf.data.Dataset:
    """Two shuffled datasets, zipped."""
    left, right = Data.range(900).map(_plane).shuffle(150), Data.range(900).map(_plane).shuffle(80)
    return Data.zip((left, right)).batch(4).prefetch(2)


def generated(_: Path) -> tf.data.Dataset:
    """The samples of a Python generator, shuffled."""

    def make() -> Any:
        for number in range(900):
            yield np.full((SIDE, SIDE), number, np.float32)

    spec = tf.TensorSpec((SIDE, SIDE), tf.float32)
    return Data.from_generator(make, output_signature=spec).shuffle(250).batch(8).prefetch(4)


def lines(folder: Path) -> tf.data.Dataset:
    """Lines of text, shuffled and then parsed."""
    path = folder / "lines.csv"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        row = ",".join(f"{value:.6f}" for value in np.random.default_rng(0).random(500))
        path.write_text("".join(f"{number},{row}\n" for number in range(60_000)))
    defaults = [[0.0]] * 501
    text = tf.data.TextLineDataset(str(path)).shuffle(40_000).batch(256)
    return text.map(lambda some: tf.stack(tf.io.decode_csv(some, defaults), 1), num_parallel_calls=2).prefetch(2)


def looked_up(_: Path) -> tf.data.Dataset:
    """A lookup table that the function captures as a tensor."""
    table = tf.random.stateless_uniform((400_000, 128), (1, 2))
    return Data.range(64_000).map(lambda n: tf.gather(table, (n * 31) % 400_000)).batch(1_024).prefetch(2)


def baked(_: Path) -> tf.data.Dataset:
    """A lookup table that is a constant in the graph of the function."""
    return Data.range(4_000).map(lambda n: tf.gather(tf.constant(_table()), n)).batch(64)


def in_batches(_: Path) -> tf.data.Dataset:
    """Batches that are preprocessed, unbatched and shuffled."""
    rows = Data.range(12_000).batch(100).map(lambda some: tf.zeros((100, 128, 128)) + tf.cast(some[0], tf.float32))
    return rows.unbatch().shuffle(4_000).batch(50).prefetch(2)


def sampled(_: Path) -> tf.data.Dataset:
    """Samples drawn from two datasets."""
    some = [Data.range(900).map(_plane).shuffle(size).repeat() for size in (120, 60)]
    return Data.sample_from_datasets(some, [0.5, 0.5], seed=1).batch(8).prefetch(4).take(120)


def numpy_rows(folder: Path) -> tf.data.Dataset:
    """Rows of a mapped array, read by Python."""
    images, _ = sets.sparse_arrays(folder, 2.0)
    array = np.load(images, mmap_mode="r")
    numbers = Data.range(len(array)).shuffle(len(array)).batch(128)

    def load(rows: tf.Tensor) -> tf.Tensor:
        found = tf.numpy_function(lambda some: array[some], [rows], tf.float32)
        return tf.ensure_shape(found, (None, *sets.IMAGE))

    return numbers.map(load, num_parallel_calls=2).prefetch(24)


def large_photos(folder: Path) -> tf.data.Dataset:
    """Photographs that are resized to large images with more calls than processors, repeated and shuffled."""

    def load(path: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), 3), (512, 512))

    files = Data.list_files([str(path) for path in sets.large_photos(folder)])
    images = files.map(load, num_parallel_calls=4).repeat(16)
    return images.shuffle(200).batch(16).prefetch(4)


def augmented_photos(folder: Path) -> tf.data.Dataset:
    """Photographs, shuffled by path, cropped at random and flipped."""
    paths = sorted(str(path) for path in sets.photos(folder).rglob("*.jpg"))

    def load(path: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_jpeg(tf.io.read_file(path), 3)
        image = tf.image.random_crop(tf.image.resize(image, (320, 400)), (288, 288, 3))
        return tf.image.random_flip_left_right(image) / 255.0

    files = Data.from_tensor_slices(paths).shuffle(len(paths)).repeat(3)
    return files.map(load, num_parallel_calls=TUNE).batch(48).prefetch(4)


def cached_photos(folder: Path) -> tf.data.Dataset:
    """Decoded photographs of 8 bits, cached, shuffled and converted after the cache."""
    paths = sorted(str(path) for path in sets.photos(folder).rglob("*.jpg"))[:300]

    def load(path: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.io.decode_jpeg(tf.io.read_file(path), 3), sets.PHOTO)

    images = Data.from_tensor_slices(paths).map(load, num_parallel_calls=TUNE).cache().repeat(3).shuffle(100)
    return images.map(lambda image: tf.cast(image, tf.float32) / 255.0, num_parallel_calls=2).batch(8).prefetch(3)


def parallel_batches(_: Path) -> tf.data.Dataset:
    """Batches that several calls copy at a time."""
    rows = Data.range(40_000).map(lambda n: tf.zeros((64, 64, 6)) + tf.cast(n, tf.float32), num_parallel_calls=2)
    return rows.shuffle(800).batch(128, num_parallel_calls=3).prefetch(2)


def rebatched(_: Path) -> tf.data.Dataset:
    """Large batches, split for several replicas, and preprocessed."""
    rows = Data.range(30_000).map(lambda n: tf.zeros((256, 64)) + tf.cast(n, tf.float32)).batch(512)
    return rows.rebatch(128).map(lambda some: tf.math.sin(some) * 2.0, num_parallel_calls=4).prefetch(6)


def mixed_sizes(_: Path) -> tf.data.Dataset:
    """Elements of very different sizes, shuffled together and batched as ragged tensors."""
    rows = Data.range(4_000).map(lambda n: tf.zeros((1_000 + (n * 7919) % 200_000,)), num_parallel_calls=4)
    return rows.shuffle(400).ragged_batch(16).prefetch(4)


_ALL: tuple[Make, ...] = (
    shuffled_photos, shuffled_records, slices, cached_small, cached_large, deep_prefetch, many_calls,
    blocks_of_files, windows, padded_sequences, zipped, generated, lines, looked_up, baked, in_batches, sampled,
    numpy_rows, large_photos, augmented_photos, cached_photos, parallel_batches, rebatched, mixed_sizes,
)  # fmt: skip
PIPELINES = {make.__name__: make for make in _ALL}
# Arrays that exist before the pipeline, and that it is made from.
BEFORE: dict[str, Callable[[], Any]] = {"slices": _array, "baked": _table}
