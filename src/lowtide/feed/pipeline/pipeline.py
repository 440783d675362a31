"""tf.data pipelines over samples that are read by index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.feed.pipeline.dataset import finish_dataset
from lowtide.feed.pipeline.feed import Feed
from lowtide.feed.pipeline.sizing import read_together
from lowtide.feed.readers.samples import Indices, Rows, SampleField, SampleReader


def make_dataset(feed: Feed, samples: SampleReader, structure: Any) -> tf.data.Dataset:
    """Make a dataset of batches that Python reads; `structure` has the number of a field in place of each tensor."""
    fields = samples.fields
    types = [tf.as_dtype(each.dtype) for each in fields]
    skips_errors, drop_remainder = feed.options.skips_errors, feed.options.drop_remainder
    if not skips_errors:
        # Where rows are left out, the boundaries of batches in a read are unknown.
        feed.sizing = read_together(feed.sizing)
    batches_per_read = feed.sizing.batches_per_read
    rows_per_read = feed.batch_size if drop_remainder and batches_per_read == 1 and not skips_errors else None

    def read(epoch: np.int64, step: np.int64) -> list[Rows]:
        positions = feed.positions_of(int(epoch), int(step), batches_per_read)
        # TensorFlow uses the memory of these arrays without a copy.
        rows, missing = samples.read(feed.index_order.at(int(epoch), positions))
        if missing.any():
            feed.report_unreadable(int(epoch), positions[missing])
            rows = [each[~missing] for each in rows]
        return rows

    def load(epoch: tf.Tensor, step: tf.Tensor) -> Any:
        tensors = feed.call_python(read, [epoch, step], types)
        for tensor, each in zip(tensors, fields, strict=True):
            tensor.set_shape((rows_per_read, *each.shape))
        return tf.nest.map_structure(lambda number: tensors[number], structure)

    steps = make_epochs(feed, lambda epoch, steps, _: steps.map(lambda step: (epoch, step)), batches_per_read)
    readers = feed.sizing.readers
    # TensorFlow warns about `deterministic` without parallel calls.
    parallel = {"num_parallel_calls": readers, "deterministic": True} if readers > 1 else {}
    batches = steps.map(load, **parallel)
    if skips_errors:
        # The following samples take the places of those that were left out.
        batches = batches.rebatch(feed.batch_size, drop_remainder=drop_remainder)
    if batches_per_read > 1:
        batches = _split_reads(feed, batches)
    return finish_dataset(feed, batches)


def _split_reads(feed: Feed, reads: tf.data.Dataset) -> tf.data.Dataset:
    """Split reads into batches, which are views of the memory of their read."""
    size = feed.batch_size

    def split(*read: Any) -> tf.data.Dataset:
        # tf.data passes a tuple as several arguments.
        rows = read if len(read) > 1 else read[0]

        def take(low: tf.Tensor) -> Any:
            batch = tf.nest.map_structure(lambda tensor: tensor[low : low + size], rows)
            if feed.options.drop_remainder:
                batch = tf.nest.map_structure(lambda tensor: tf.ensure_shape(tensor, (size, *tensor.shape[1:])), batch)
            return batch

        count = tf.shape(tf.nest.flatten(rows)[0], tf.int64)[0]
        return tf.data.Dataset.range(0, count, size).map(take)

    return reads.flat_map(split)


MakeEpoch = Callable[[tf.Tensor, tf.data.Dataset, tf.Tensor], tf.data.Dataset]
"""Makes the elements of an epoch from its number, a dataset of its remaining steps, and the first of these."""


def make_epochs(feed: Feed, make_epoch: MakeEpoch, batches_per_read: int = 1) -> tf.data.Dataset:
    """Make a dataset that is the next epoch each time it is iterated over; of each read it has the first step only."""

    # Autograph would convert the Python functions that `make_epoch` refers to, and show the converted code in errors.
    @tf.autograph.experimental.do_not_convert
    def make(epoch: tf.Tensor, first: tf.Tensor) -> tf.data.Dataset:
        return make_epoch(epoch, tf.data.Dataset.range(first, feed.steps, batches_per_read), first)

    return make_starts(feed).flat_map(make)


def make_starts(feed: Feed) -> tf.data.Dataset:
    """Make a dataset of one element, the epoch and the first step, which each iterator computes for itself."""

    def start(_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        epoch, first = feed.call_python(feed.start_iteration, [], [tf.int64, tf.int64])
        return tf.ensure_shape(epoch, ()), tf.ensure_shape(first, ())

    return tf.data.Dataset.from_tensors(0).map(start)


LookUp = Callable[[Indices], Sequence[Rows]]
"""Returns the fields of samples that are known without reading them."""


def list_samples(
    feed: Feed, epoch: tf.Tensor, step: tf.Tensor, look_up: LookUp | None = None, known: Sequence[SampleField] = ()
) -> tf.data.Dataset:
    """The samples of a batch one by one: the position of each in the epoch, and its index or its known fields."""

    def find(epoch: np.int64, step: np.int64) -> list[Rows]:
        positions = feed.positions_of(int(epoch), int(step))
        samples = feed.index_order.at(int(epoch), positions)
        return [positions, *([samples] if look_up is None else look_up(samples))]

    fields = known or [SampleField("sample", (), np.dtype(np.int64))]
    tensors = feed.call_python(find, [epoch, step], [tf.int64, *(tf.as_dtype(each.dtype) for each in fields)])
    for tensor, shape in zip(tensors, [(), *(each.shape for each in fields)], strict=True):
        tensor.set_shape((None, *shape))
    return tf.data.Dataset.from_tensor_slices(tuple(tensors))
