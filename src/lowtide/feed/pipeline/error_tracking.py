"""Find the samples that TensorFlow could not read: its errors do not name the sample.

The positions of an epoch are consecutive, so a sample that is missing shows as a gap. A final element after the last
sample makes a gap at the end visible too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.feed import CURE, UNREADABLE_ONCE, Feed

ReportGap = Callable[[np.int64, np.int64, np.int64], np.int64]
"""Takes the epoch, the expected position and the actual one; raises an error, or returns the actual one."""


def skip_unreadable(
    feed: Feed, loaded: tf.data.Dataset, epoch: tf.Tensor, first: tf.Tensor, end: Sequence[tf.Tensor]
) -> tf.data.Dataset:
    """Leave out and report the samples that could not be read; each sample comes with its position in the epoch.

    `end` is a placeholder sample for the final element.
    """

    def report(epoch: np.int64, low: np.int64, high: np.int64) -> np.int64:
        feed.report_unreadable(int(epoch), np.arange(low, high))
        return high

    return _without_gaps(feed, loaded, epoch, first, end, report)


def raise_for_unreadable(
    feed: Feed, batches: tf.data.Dataset, epoch: tf.Tensor, first: tf.Tensor, end: Sequence[tf.Tensor]
) -> tf.data.Dataset:
    """Raise an error that names the sample if a batch is missing; each batch comes with its positions in the epoch.

    A batch that could not be read is missing as a whole, and the next one may start anywhere after it: only the first
    gap counts. `end` is an empty batch for the final element.
    """

    def report(epoch: np.int64, low: np.int64, high: np.int64) -> np.int64:
        positions = np.arange(low, min(low + feed.batch_size, high))
        samples = feed.index_order.at(int(epoch), positions).tolist()
        # Usually only one of them cannot be read.
        for sample in samples:
            reason = feed.source.reason(sample)
            if reason is not None:
                raise LowtideError(f"{feed.source.where(sample)}: {reason}", cure=CURE)
        after = len(samples) - 1
        others = f"one of the {after:,} samples" if after > 1 else "the sample"
        where = f"{feed.source.where(samples[0])}{f', or {others} after it' if after else ''}"
        raise LowtideError(f"{where}: {UNREADABLE_ONCE}", cure="check the disk and the free memory")

    kept = _without_gaps(feed, batches, epoch, first, end, report)
    if not feed.options.drop_remainder:
        return kept

    def set_size(*tensors: tf.Tensor) -> Any:
        sized = tuple(tf.ensure_shape(tensor, (feed.batch_size, *tensor.shape[1:])) for tensor in tensors)
        return sized if len(sized) > 1 else sized[0]

    return kept.map(set_size)


def _without_gaps(
    feed: Feed,
    loaded: tf.data.Dataset,
    epoch: tf.Tensor,
    first: tf.Tensor,
    end: Sequence[tf.Tensor],
    report: ReportGap,
) -> tf.data.Dataset:
    """Report gaps, and remove the positions, which are the first component of each element."""
    is_batch = loaded.element_spec[0].shape.rank == 1
    total = tf.constant(feed.epoch_samples, tf.int64)
    before = feed.call_python(lambda epoch: np.int64(feed.skipped_before.get(int(epoch), 0)), [epoch], tf.int64)
    first = tf.minimum(first + tf.ensure_shape(before, ()), total)
    final = tf.data.Dataset.from_tensors((total[tf.newaxis] if is_batch else total, *end))

    def check(expected: tf.Tensor, element: tuple[tf.Tensor, ...]) -> Any:
        positions, *tensors = element
        position, count = (
            (positions[0], tf.size(positions, tf.int64)) if is_batch else (positions, tf.constant(1, tf.int64))
        )
        actual = tf.cond(
            position > expected,
            lambda: tf.ensure_shape(feed.call_python(report, [epoch, expected, position], tf.int64), ()),
            lambda: position,
        )
        return actual + count, (actual, *tensors)

    checked = loaded.ignore_errors().concatenate(final).scan(first, check)
    kept = checked.take_while(lambda position, *tensors: position < total)
    return kept.map(lambda position, *tensors: tensors if len(tensors) > 1 else tensors[0])
