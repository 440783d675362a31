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
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.error_tracking import watched, watched_batches
from lowtide.feed.pipeline.options import RAISE, ShardGiven, by_index, check_batch, check_on_error, processors, sharded
from lowtide.feed.pipeline.order import Places
from lowtide.feed.pipeline.pipeline import Feed, finish, iterations, reason_of, samples_of
from lowtide.feed.pipeline.sizing import choose_sizes
from lowtide.feed.readers.array_files import Rows
from lowtide.feed.readers.array_samples import Field
from lowtide.feed.readers.image_decoding import SCALED, Decoder, check_decode, decoding_bytes, make_decoder
from lowtide.feed.readers.image_headers import ImageHead, read_head
from lowtide.units import parse_bytes

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
# Of so many files the size is looked at to know what decoding takes.
_LOOKED_AT = 256
# So many more decoders than processors: while some wait for their files, others decode.
_WAITING = 2
# Decoded images lie in memory of the C library's, which at times takes half as much again as they are: of 55 processes
# without this three held 125 to 141 MiB of 96.
_SPARE = 1 / 3
# What a path takes besides its letters.
_PATH_BYTES = 72


@dataclass
class ImageFiles:
    """Image files and their labels."""

    paths: list[str]
    labels: np.ndarray | None
    class_names: list[str] = field(default_factory=list)
    decoder: Decoder | None = None

    @property
    def count(self) -> int:
        return len(self.paths)

    @property
    def known(self) -> list[Field]:
        """What is known of an image without reading it."""
        path = Field("path", (), np.dtype(object))
        return [path] if self.labels is None else [path, Field("label", self.labels.shape[1:], self.labels.dtype)]

    def look_up(self, samples: Places) -> list[Rows]:
        """The paths and labels of some images."""
        paths = np.array([self.paths[sample].encode() for sample in samples.tolist()], object)
        return [paths] if self.labels is None else [paths, self.labels[samples]]

    def where(self, sample: int) -> str:
        return self.paths[sample]

    def reason(self, sample: int) -> str | None:
        """What TensorFlow says of the file when it is read by itself."""
        assert self.decoder is not None
        try:
            self.decoder(tf.constant(self.paths[sample]))
        except tf.errors.OpError as error:
            return reason_of(error)
        return None


def images(
    source: str | os.PathLike[str] | Sequence[str],
    labels: Sequence[Any] | np.ndarray | None = None,
    *,
    size: tuple[int, int],
    batch_size: int,
    budget: str | int,
    channels: int = 3,
    decode: str = SCALED,
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

    A JPEG that is much larger than `size` is decoded at a half, a quarter or an eighth of its sides, the smallest that
    still is at least `size`, and then resized: faster, in less memory, and with less aliasing. Its pixels differ
    slightly from those of `decode="whole"`, which are exactly those of tf.image.resize(tf.io.decode_image(...)).
    """
    check_batch(batch_size)
    check_on_error(on_error)
    check_decode(decode)
    found = find_images(source, labels)
    found.decoder = make_decoder(size, channels, decode)
    order = by_index(found.count, shuffle, seed, bookmark)
    pixels = size[0] * size[1] * channels * 4
    item = sum(each.bytes for each in found.known[1:])
    sizing = choose_sizes(
        parse_bytes(budget),
        batch_size * (pixels + item),
        processors() + _WAITING,
        # Images are gathered one by one, and then copied into their batch.
        fixed_bytes=sum(map(len, found.paths)) + found.count * _PATH_BYTES + batch_size * pixels,
        scratch=_most_bytes(found.paths, size, channels, decode),
        spare=_SPARE,
    )
    feed = Feed(found, sharded(order, shard), batch_size, drop_remainder, sizing, bookmark, on_error)
    return _make(feed, found, found.decoder, (*size, channels))


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


def _most_bytes(paths: Sequence[str], size: tuple[int, int], channels: int, decode: str) -> int:
    """What reading the largest of the files takes; of many some are looked at, spread over the list."""
    chosen = paths[:: max(len(paths) // _LOOKED_AT, 1)]
    most = decoding_bytes(ImageHead(*size), 0, size, channels, decode)
    for path in chosen:
        head = read_head(path)
        if head is not None:
            most = max(most, decoding_bytes(head, os.path.getsize(path), size, channels, decode))
    return most


def _make(feed: Feed, found: ImageFiles, decoder: Decoder, shape: tuple[int, int, int]) -> tf.data.Dataset:
    known = found.known[1:]

    def load(place: tf.Tensor, path: tf.Tensor, *label: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return (place, decoder(path), *label)

    def of_epoch(epoch: tf.Tensor, steps: tf.data.Dataset, first: tf.Tensor) -> tf.data.Dataset:
        files = steps.flat_map(lambda step: samples_of(feed, epoch, step, found.look_up, found.known))
        loaded = files.map(load, num_parallel_calls=feed.sizing.readers, deterministic=True)
        place = first * feed.batch_size
        if feed.on_error != RAISE:
            nothing = [tf.zeros(shape), *(tf.zeros(each.shape, each.dtype) for each in known)]
            return watched(feed, loaded, epoch, place, nothing)
        nothing = [tf.zeros((0, *shape)), *(tf.zeros((0, *each.shape), each.dtype) for each in known)]
        return watched_batches(feed, _batched(feed, loaded), epoch, place, nothing)

    batches = iterations(feed, of_epoch)
    return finish(feed, batches if feed.on_error == RAISE else _batched(feed, batches))


def _batched(feed: Feed, samples: tf.data.Dataset) -> tf.data.Dataset:
    return samples.batch(feed.batch_size, drop_remainder=feed.drop_remainder)
