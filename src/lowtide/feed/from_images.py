"""`lt.feed.images`: datasets over image files, decoded and resized by TensorFlow, within a budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.dataset import finish_dataset
from lowtide.feed.pipeline.error_tracking import raise_for_unreadable, skip_unreadable
from lowtide.feed.pipeline.feed import Feed
from lowtide.feed.pipeline.options import FeedOptions, ShardSpec
from lowtide.feed.pipeline.pipeline import list_samples, make_epochs
from lowtide.feed.pipeline.sizing import choose_sizes
from lowtide.feed.readers.image_decoding import SCALED, check_decode, make_decoder
from lowtide.feed.readers.image_files import ImageFiles, find_images
from lowtide.program.machine import processor_count

# The number of decoders beyond the number of processors: while some wait for their files, others decode.
_WAITING_DECODERS = 2
# The C library allocates decoded images, and at times takes half as much again as they need: without this reserve 3 of
# 55 processes held 125 to 141 MiB with a budget of 96 MiB.
_RESERVED_SHARE = 1 / 3
# The overhead of a path as a Python string.
_PATH_BYTES = 72


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
    shard: ShardSpec = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of images as float32 from 0 to 255, each resized to `size` (height, width).

    `source` is a folder with a folder for each class, whose names in alphabetical order are the labels 0, 1, 2 ...; a
    folder of images without labels; or a list of paths, with `labels` beside it. `on_error="skip"` leaves out files
    that cannot be read, and `lt.feed.problems(dataset)` lists them; otherwise such a file is an error that names it.

    A JPEG that is much larger than `size` is decoded at a half, a quarter or an eighth of its sides, the smallest that
    is still at least `size`, and then resized: faster, in less memory, and with less aliasing. Its pixels differ
    slightly from those of `decode="whole"`, which are exactly those of tf.image.resize(tf.io.decode_image(...)).
    """
    options = FeedOptions(batch_size, budget, shuffle, seed, drop_remainder, shard, on_error, bookmark)
    check_decode(decode)
    files = find_images(source, labels, make_decoder(size, channels, decode))
    image_bytes = size[0] * size[1] * channels * 4
    label_bytes = sum(each.bytes for each in files.known_fields[1:])
    sizing = choose_sizes(
        options.budget_bytes,
        batch_size * (image_bytes + label_bytes),
        processor_count() + _WAITING_DECODERS,
        # Images are collected one by one, and then copied into their batch.
        fixed_bytes=sum(map(len, files.paths)) + files.count * _PATH_BYTES + batch_size * image_bytes,
        reader_bytes=files.most_decoding_bytes(size, channels, decode),
        reserved_share=_RESERVED_SHARE,
    )
    feed = Feed(files, options.shard_order(options.order_by_index(files.count)), options, sizing)
    return _make_dataset(feed, files, (*size, channels))


def _make_dataset(feed: Feed, files: ImageFiles, shape: tuple[int, int, int]) -> tf.data.Dataset:
    labels = files.known_fields[1:]
    skips_errors = feed.options.skips_errors

    def load(position: tf.Tensor, path: tf.Tensor, *label: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return (position, files.decoder(path), *label)

    def make_epoch(epoch: tf.Tensor, steps: tf.data.Dataset, first: tf.Tensor) -> tf.data.Dataset:
        paths = steps.flat_map(lambda step: list_samples(feed, epoch, step, files.look_up, files.known_fields))
        loaded = paths.map(load, num_parallel_calls=feed.sizing.readers, deterministic=True)
        position = first * feed.batch_size
        if skips_errors:
            end = [tf.zeros(shape), *(tf.zeros(each.shape, each.dtype) for each in labels)]
            return skip_unreadable(feed, loaded, epoch, position, end)
        end = [tf.zeros((0, *shape)), *(tf.zeros((0, *each.shape), each.dtype) for each in labels)]
        return raise_for_unreadable(feed, batch(loaded), epoch, position, end)

    def batch(samples: tf.data.Dataset) -> tf.data.Dataset:
        return samples.batch(feed.batch_size, drop_remainder=feed.options.drop_remainder)

    epochs = make_epochs(feed, make_epoch)
    return finish_dataset(feed, batch(epochs) if skips_errors else epochs)
