"""`lt.feed.records`: datasets over TFRecord files of tf.train.Example, within a budget."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.dataset import finish_dataset
from lowtide.feed.pipeline.error_tracking import skip_unreadable
from lowtide.feed.pipeline.feed import Feed
from lowtide.feed.pipeline.options import FeedOptions, ShardSpec
from lowtide.feed.pipeline.pipeline import list_samples, make_epochs
from lowtide.feed.pipeline.pooled_batches import move_to_pool
from lowtide.feed.pipeline.sizing import choose_sizes, kept_for_thread
from lowtide.feed.readers.array_files import TEXT_BYTES
from lowtide.feed.readers.buffer_pool import BufferPool
from lowtide.feed.readers.record_files import RecordFiles, open_records
from lowtide.program.machine import processor_count

# The offset and the length of a record in memory.
_INDEX_BYTES = 16


def records(
    source: str | os.PathLike[str] | Sequence[str],
    *,
    features: Mapping[str, Any],
    batch_size: int,
    budget: str | int,
    label: str | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: ShardSpec = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of parsed examples, as dicts of tensors, or as pairs if one of the features is the `label`.

    `source` is a pattern such as "train-*.tfrecord", or a list of paths. `features` is what tf.io.parse_example takes.
    The offset of each record is found from the lengths in the files, so that all records are shuffled by index, across
    files. Files compressed by gzip or zlib are unpacked once to the disk. What you decode afterwards, with `map`, is
    not counted in the budget.
    """
    options = FeedOptions(batch_size, budget, shuffle, seed, drop_remainder, shard, on_error, bookmark)
    if label is not None and label not in features:
        raise LowtideError("the label is none of the features", given=label, cure=f"give one of {', '.join(features)}")
    files = open_records(source, skip=options.skips_errors)
    # A batch is in memory both as serialized and as parsed examples while it is read, and then as parsed ones.
    parsed_bytes = _parsed_bytes(features, files.longest)
    reading_bytes = batch_size * (parsed_bytes + files.longest + TEXT_BYTES)
    # The serialized examples are Python objects before they are tensors: of one batch at a time.
    # Besides the threads of the readers, those of TensorFlow's parser take memory: counted as one more.
    fixed_bytes = files.count * _INDEX_BYTES + 2 * batch_size * files.longest + kept_for_thread(reading_bytes)
    sizing = choose_sizes(
        options.budget_bytes,
        batch_size * parsed_bytes,
        processor_count(),
        fixed_bytes=fixed_bytes,
        reader_bytes=kept_for_thread(reading_bytes),
    )
    feed = Feed(files, options.shard_order(options.order_by_index(files.count)), options, sizing)
    feed.problems += files.problems
    if files.unpacked is not None:
        feed.notes.append(files.unpacked.describe())
    parse = _parse_singly if options.skips_errors else _parse_batches
    return finish_dataset(feed, parse(feed, files, features, label))


def _parsed_bytes(features: Mapping[str, Any], longest: int) -> int:
    """The most memory that the parsed features of a record take."""
    total = 0
    for feature in features.values():
        shape = getattr(feature, "shape", None)
        if shape is None or feature.dtype == tf.string:
            # Of variable length: no longer than its record, in which numbers are packed at most eight to one.
            total += longest * (1 if feature.dtype == tf.string else 8)
        else:
            total += int(np.prod(shape, dtype=np.int64)) * feature.dtype.size
    return total


def _parse_batches(feed: Feed, files: RecordFiles, features: Mapping[str, Any], label: str | None) -> tf.data.Dataset:
    """Parse a batch at a time; an error names the record."""

    def read(epoch: np.int64, step: np.int64) -> tuple[Any, Any]:
        samples = feed.index_order.at(int(epoch), feed.positions_of(int(epoch), int(step))).tolist()
        content = np.array([files.read(sample) for sample in samples], object)
        return content, np.array([files.where(sample).encode() for sample in samples], object)

    def load(epoch: tf.Tensor, step: tf.Tensor) -> Any:
        content, names = feed.call_python(read, [epoch, step], [tf.string, tf.string])
        count = feed.batch_size if feed.options.drop_remainder else None
        content.set_shape((count,))
        names.set_shape((count,))
        parsed = tf.io.parse_example(content, features, example_names=names)
        return _with_label(_pool(feed, buffers, parsed), label)

    buffers = BufferPool()
    steps = make_epochs(feed, lambda epoch, steps, _: steps.map(lambda step: (epoch, step)))
    return steps.map(load, num_parallel_calls=feed.sizing.readers, deterministic=True)


def _pool(feed: Feed, buffers: BufferPool, parsed: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(parsed, move_to_pool(feed, buffers, list(parsed.values())), strict=True))


def _parse_singly(feed: Feed, files: RecordFiles, features: Mapping[str, Any], label: str | None) -> tf.data.Dataset:
    """Parse each record by itself, so that only the records that cannot be parsed are left out."""
    if any(isinstance(feature, tf.io.SparseFeature | tf.io.VarLenFeature) for feature in features.values()):
        raise LowtideError(
            'features of variable length cannot be batched one by one', given='on_error="skip"',
            cure="use tf.io.RaggedFeature or FixedLenFeature, or on_error='raise'",
        )  # fmt: skip
    names = list(features)

    def load(position: tf.Tensor, sample: tf.Tensor) -> Any:
        content = feed.call_python(lambda number: files.read(int(number)), [sample], tf.string)
        parsed = tf.io.parse_single_example(tf.ensure_shape(content, ()), features)
        return (position, *(parsed[name] for name in names))

    def make_epoch(epoch: tf.Tensor, steps: tf.data.Dataset, first: tf.Tensor) -> tf.data.Dataset:
        loaded = steps.flat_map(lambda step: list_samples(feed, epoch, step)).map(
            load, num_parallel_calls=feed.sizing.readers, deterministic=True
        )
        end = [tf.zeros(feature.shape, feature.dtype) for feature in features.values()]
        kept = skip_unreadable(feed, loaded, epoch, first * feed.batch_size, end)
        return kept.map(lambda *tensors: dict(zip(names, tensors, strict=True)))

    buffers = BufferPool()
    batches = make_epochs(feed, make_epoch).batch(feed.batch_size, drop_remainder=feed.options.drop_remainder)
    return batches.map(lambda parsed: _with_label(_pool(feed, buffers, parsed), label))


def _with_label(parsed: dict[str, tf.Tensor], label: str | None) -> Any:
    if label is None:
        return parsed
    return {name: tensor for name, tensor in parsed.items() if name != label}, parsed[label]
