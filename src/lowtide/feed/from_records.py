"""`lt.feed.records`: a dataset over TFRecord files of tf.train.Example, within a budget."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.error_tracking import watched
from lowtide.feed.pipeline.options import (
    RAISE,
    SKIP,
    ShardGiven,
    by_index,
    check_batch,
    check_on_error,
    processors,
    sharded,
)
from lowtide.feed.pipeline.pipeline import Feed, finish, in_python, iterations, samples_of
from lowtide.feed.pipeline.sizing import choose_sizes
from lowtide.feed.readers.record_files import RecordFiles, open_records
from lowtide.units import parse_bytes

# What a text takes besides its bytes.
_TEXT_BYTES = 24


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
    shard: ShardGiven = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of parsed examples, as dicts of tensors, or as pairs where one of the features is the `label`.

    `source` is a pattern such as "train-*.tfrecord", or a list of paths. `features` is what tf.io.parse_example takes.
    Where each record lies is found from the lengths in the files, so that all of them are shuffled by index, across
    files. Those that gzip or zlib has compressed are unpacked once to the disk. What you decode afterwards, with `map`,
    is on top of the budget.
    """
    check_batch(batch_size)
    check_on_error(on_error)
    if label is not None and label not in features:
        raise LowtideError("the label is none of the features", given=label, cure=f"give one of {', '.join(features)}")
    found = open_records(source, skip=on_error == SKIP)
    order = by_index(found.count, shuffle, seed, bookmark)
    # A batch is there as it was written, and parsed.
    row = _parsed_bytes(features, found.longest) + found.longest + _TEXT_BYTES
    sizing = choose_sizes(parse_bytes(budget), batch_size * row, processors(), fixed_bytes=found.count * 16)
    feed = Feed(found, sharded(order, shard), batch_size, drop_remainder, sizing, bookmark, on_error)
    feed.problems += found.problems
    if found.unpacked is not None:
        feed.notes.append(found.unpacked.describe())
    if on_error == RAISE:
        return finish(feed, _together(feed, found, features, label))
    return finish(feed, _one_by_one(feed, found, features, label))


def _parsed_bytes(features: Mapping[str, Any], longest: int) -> int:
    """What the parsed features of a record take at most."""
    total = 0
    for feature in features.values():
        shape = getattr(feature, "shape", None)
        if shape is None or feature.dtype == tf.string:
            # It says nothing of its length; it has no more bytes than its record, and numbers are packed there at most
            # eight to one.
            total += longest * (1 if feature.dtype == tf.string else 8)
        else:
            total += int(np.prod(shape, dtype=np.int64)) * feature.dtype.size
    return total


def _together(feed: Feed, found: RecordFiles, features: Mapping[str, Any], label: str | None) -> tf.data.Dataset:
    """Batches that are parsed at once; an error names the record."""

    def read(epoch: np.int64, step: np.int64) -> tuple[Any, Any]:
        samples = feed.samples_of(int(epoch), int(step)).tolist()
        content = np.array([found.read(sample) for sample in samples], object)
        return content, np.array([found.where(sample).encode() for sample in samples], object)

    def load(epoch: tf.Tensor, step: tf.Tensor) -> Any:
        content, names = in_python(feed, read, [epoch, step], [tf.string, tf.string])
        count = feed.batch_size if feed.drop_remainder else None
        content.set_shape((count,))
        names.set_shape((count,))
        return _with_label(tf.io.parse_example(content, features, example_names=names), label)

    steps = iterations(feed, lambda epoch, steps, _: steps.map(lambda step: (epoch, step)))
    return steps.map(load, num_parallel_calls=feed.sizing.readers, deterministic=True)


def _one_by_one(feed: Feed, found: RecordFiles, features: Mapping[str, Any], label: str | None) -> tf.data.Dataset:
    """Records that are parsed each by itself, so that one that cannot be is left out alone."""
    if any(isinstance(feature, tf.io.SparseFeature | tf.io.VarLenFeature) for feature in features.values()):
        raise LowtideError(
            'features of any length cannot be batched one by one', given='on_error="skip"',
            cure="use tf.io.RaggedFeature or FixedLenFeature, or on_error='raise'",
        )  # fmt: skip
    names = list(features)

    def load(place: tf.Tensor, sample: tf.Tensor) -> Any:
        content = in_python(feed, lambda number: found.read(int(number)), [sample], tf.string)
        parsed = tf.io.parse_single_example(tf.ensure_shape(content, ()), features)
        return (place, *(parsed[name] for name in names))

    def of_epoch(epoch: tf.Tensor, steps: tf.data.Dataset, first: tf.Tensor) -> tf.data.Dataset:
        loaded = steps.flat_map(lambda step: samples_of(feed, epoch, step)).map(
            load, num_parallel_calls=feed.sizing.readers, deterministic=True
        )
        nothing = [tf.zeros(feature.shape, feature.dtype) for feature in features.values()]
        kept = watched(feed, loaded, epoch, first * feed.batch_size, nothing)
        if len(names) == 1:
            return kept.map(lambda tensor: _with_label({names[0]: tensor}, label))
        return kept.map(lambda *tensors: _with_label(dict(zip(names, tensors, strict=True)), label))

    return iterations(feed, of_epoch).batch(feed.batch_size, drop_remainder=feed.drop_remainder)


def _with_label(parsed: dict[str, tf.Tensor], label: str | None) -> Any:
    if label is None:
        return parsed
    return {name: tensor for name, tensor in parsed.items() if name != label}, parsed[label]
