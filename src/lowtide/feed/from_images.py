"""`lt.feed.images`: a dataset over image files, decoded and resized by TensorFlow, within a budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.bookmark import Bookmark
from lowtide.feed.image_sizes import read_size
from lowtide.feed.options import ShardGiven, by_index, check_batch, check_on_error, processors, sharded
from lowtide.feed.pipeline import Feed, finish, iterations, reason_of, samples_of, watched
from lowtide.feed.sizing import choose_sizes
from lowtide.units import parse_bytes

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
# Of so many files the size is looked at to know what decoding takes.
_LOOKED_AT = 256
# What a decoder takes besides its image, for rows that it has in the works.
_DECODER_BYTES = 1 << 20


@dataclass
class ImageFiles:
    """Image files and their labels."""

    paths: list[str]
    labels: np.ndarray | None
    class_names: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.paths)

    def where(self, sample: int) -> str:
        return self.paths[sample]

    def reason(self, sample: int) -> str:
        """What TensorFlow says of the file when it is read by itself."""
        try:
            tf.io.decode_image(tf.io.read_file(self.paths[sample]), expand_animations=False)
        except tf.errors.OpError as error:
            return reason_of(error)
        return "it could be read only now"


def images(
    source: str | os.PathLike[str] | Sequence[str],
    labels: Sequence[Any] | np.ndarray | None = None,
    *,
    size: tuple[int, int],
    batch_size: int,
    budget: str | int,
    channels: int = 3,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: ShardGiven = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of images as float32 from 0 to 255, each resized to `size` (height, width).

    `source` is a folder with a folder for each class, whose names in alphabetical order are the labels 0, 1, 2 ...; a
    folder of images without labels; or a list of paths, with `labels` beside it. `on_error="skip"` leaves out what
    cannot be read, and `lt.feed.problems(dataset)` lists it; otherwise such a file is an error that names it.
    """
    check_batch(batch_size)
    check_on_error(on_error)
    found = find_images(source, labels)
    order = by_index(found.count, shuffle, seed, bookmark)
    pixels = size[0] * size[1] * channels * 4
    item = 0 if found.labels is None else found.labels.itemsize
    # Each decoder has the file, the image as it is, and the resized one.
    scratch = _largest_decoded(found.paths, channels) + pixels + _DECODER_BYTES
    paths_bytes = sum(map(len, found.paths)) + found.count * 32
    sizing = choose_sizes(
        parse_bytes(budget),
        batch_size * (pixels + item),
        processors(),
        # Images are gathered one by one, and then copied into their batch.
        fixed_bytes=paths_bytes + batch_size * pixels,
        scratch=scratch,
    )
    feed = Feed(found, sharded(order, shard), batch_size, drop_remainder, sizing, bookmark, on_error)
    return _make(feed, found, size, channels)


def find_images(source: Any, labels: Any) -> ImageFiles:
    """The files that are meant, in alphabetical order or as they were given."""
    if isinstance(source, str | os.PathLike):
        folder = Path(source)
        if not folder.is_dir():
            raise LowtideError("there is no such folder of images", given=folder, cure="check the path")
        classes = sorted(each.name for each in folder.iterdir() if each.is_dir())
        if labels is None and classes:
            found = [(path, number) for number, name in enumerate(classes) for path in _below(folder / name)]
            numbers = np.array([number for _, number in found], np.int32)
            files = ImageFiles([path for path, _ in found], numbers, classes)
        else:
            files = ImageFiles(_below(folder), None if labels is None else np.asarray(labels))
    else:
        files = ImageFiles([os.fspath(path) for path in source], None if labels is None else np.asarray(labels))
    if not files.paths:
        raise LowtideError("there are no images", given=source, cure=f"give files that end in {', '.join(SUFFIXES)}")
    if files.labels is not None and (files.labels.dtype.hasobject or not files.labels.ndim):
        known = files.labels.tolist() if files.labels.ndim else []
        lacking = [path for path, label in zip(files.paths, known, strict=False) if label is None]
        raise LowtideError(
            f"{lacking[0]} has no label" if lacking else "labels are neither numbers nor texts",
            given=type(labels).__name__,
            cure="give a number or a text for each image",
        )
    if files.labels is not None and len(files.labels) != len(files.paths):
        raise LowtideError(
            "there is not one label for each image",
            given=f"{len(files.paths):,} images, {len(files.labels):,} labels",
            cure="give as many labels as paths",
        )
    return files


def _below(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def _largest_decoded(paths: Sequence[str], channels: int) -> int:
    """What the largest of the files takes, decoded and as it is; of many some are looked at, spread over the list."""
    chosen = paths[:: max(len(paths) // _LOOKED_AT, 1)]
    largest = 0
    for path in chosen:
        size = read_size(path)
        if size is not None:
            largest = max(largest, size[0] * size[1] * channels + os.path.getsize(path))
    return largest


def _make(feed: Feed, found: ImageFiles, size: tuple[int, int], channels: int) -> tf.data.Dataset:
    paths = tf.constant(found.paths)
    labels = None if found.labels is None else tf.constant(found.labels)
    shape = (*size, channels)

    def load(place: tf.Tensor, sample: tf.Tensor) -> tuple[tf.Tensor, ...]:
        image = tf.io.decode_image(tf.io.read_file(paths[sample]), channels, expand_animations=False)
        image = tf.ensure_shape(tf.image.resize(image, size), shape)
        return (place, image) if labels is None else (place, image, labels[sample])

    def of_epoch(epoch: tf.Tensor, steps: tf.data.Dataset, first: tf.Tensor) -> tf.data.Dataset:
        loaded = steps.flat_map(lambda step: samples_of(feed, epoch, step)).map(
            load, num_parallel_calls=feed.sizing.readers, deterministic=True
        )
        nothing = [tf.zeros(shape)] if labels is None else [tf.zeros(shape), tf.zeros((), labels.dtype)]
        return watched(feed, loaded, epoch, first * feed.batch_size, nothing)

    batches = iterations(feed, of_epoch).batch(feed.batch_size, drop_remainder=feed.drop_remainder)
    return finish(feed, batches)
