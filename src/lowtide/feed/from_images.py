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
from lowtide.feed.pipeline.freed_memory import FreedMemory
from lowtide.feed.pipeline.options import FeedOptions, ShardSpec
from lowtide.feed.pipeline.pipeline import list_samples, make_epochs
from lowtide.feed.pipeline.sizing import choose_sizes, kept_for_thread
from lowtide.feed.readers.image_decoding import SCALED, check_decoding, make_decoder
from lowtide.feed.readers.image_files import ImageFiles, find_images
from lowtide.feed.readers.image_slots import ImageKey, ImageSlots
from lowtide.program.machine import processor_count

# The number of decoders beyond the number of processors: while some wait for their files, others decode.
_WAITING_DECODERS = 2
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
    `dataset.class_names` has the names of the class folders.

    A JPEG that is much larger than `size` is decoded at a half, a quarter or an eighth of its sides, the smallest that
    is still at least `size`, and then resized: faster, in less memory, and with less aliasing. Its pixels differ
    slightly from those of `decode="whole"`, which are exactly those of tf.image.resize(tf.io.decode_image(...)).
    """
    options = FeedOptions(batch_size, budget, shuffle, seed, drop_remainder, shard, on_error, bookmark)
    check_decoding(size, channels, decode)
    files = find_images(source, labels, make_decoder(size, channels, decode))
    image_bytes = size[0] * size[1] * channels * 4
    label_bytes = sum(each.bytes for each in files.known_fields[1:])
    readers = processor_count() + _WAITING_DECODERS
    # The images of a batch, one that is handed over, and one of each reader.
    slots = batch_size + 1 + readers
    sizing = choose_sizes(
        options.budget_bytes,
        batch_size * (image_bytes + label_bytes),
        readers,
        fixed_bytes=sum(map(len, files.paths)) + files.count * _PATH_BYTES + slots * image_bytes,
        reader_bytes=kept_for_thread(files.most_decoding_bytes(size, channels, decode)),
    )
    feed = Feed(files, options.shard_order(options.order_by_index(files.count)), options, sizing)
    return _make_dataset(feed, files, slots, (*size, channels))


def _make_dataset(feed: Feed, files: ImageFiles, slot_count: int, shape: tuple[int, int, int]) -> tf.data.Dataset:
    labels = files.known_fields[1:]
    options = feed.options

    def decode(key: ImageKey) -> Any:
        sample = int(feed.index_order.at(key[0], np.array([key[1]], np.int64))[0])
        return files.decoder(tf.constant(files.paths[sample])).numpy()

    slots = ImageSlots(slot_count, shape, decode)
    freed = FreedMemory()

    def put(epoch: np.int64, position: np.int64, image: np.ndarray) -> np.ndarray:
        slots.put((int(epoch), int(position)), image)
        return np.array([epoch, position], np.int64)

    def take(keys: np.ndarray) -> np.ndarray:
        freed.give_back()
        return slots.take([(epoch, position) for epoch, position in keys.tolist()])

    def gather(keys: tf.Tensor, *label: tf.Tensor) -> Any:
        images = tf.ensure_shape(feed.call_python(take, [keys], tf.float32), (keys.shape[0], *shape))
        return (images, *label) if label else images

    def make_epoch(epoch: tf.Tensor, steps: tf.data.Dataset, first: tf.Tensor) -> tf.data.Dataset:
        def load(position: tf.Tensor, path: tf.Tensor, *label: tf.Tensor) -> tuple[tf.Tensor, ...]:
            key = feed.call_python(put, [epoch, position, files.decoder(path)], tf.int64)
            return (position, tf.ensure_shape(key, (2,)), *label)

        paths = steps.flat_map(lambda step: list_samples(feed, epoch, step, files.look_up, files.known_fields))
        loaded = paths.map(load, num_parallel_calls=feed.sizing.readers, deterministic=True)
        position = first * feed.batch_size
        if options.skips_errors:
            end = [tf.zeros((2,), tf.int64), *(tf.zeros(each.shape, each.dtype) for each in labels)]
            return skip_unreadable(feed, loaded, epoch, position, end)
        end = [tf.zeros((0, 2), tf.int64), *(tf.zeros((0, *each.shape), each.dtype) for each in labels)]
        return raise_for_unreadable(feed, batch(loaded), epoch, position, end)

    def batch(samples: tf.data.Dataset) -> tf.data.Dataset:
        return samples.batch(feed.batch_size, drop_remainder=options.drop_remainder)

    epochs = make_epochs(feed, make_epoch)
    return finish_dataset(feed, (batch(epochs) if options.skips_errors else epochs).map(gather))
