"""What could not be read is found out and named: TensorFlow's errors do not say which sample they come from.

But places in an epoch follow each other, so that what is left out shows as a gap; and behind the last sample stands an
element of its own, so that a gap at the end shows too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.pipeline import CURE, ONLY_NOW, Feed, in_python

Report = Callable[[np.int64, np.int64, np.int64], np.int64]
"""Is told an epoch, the place that was expected and the one that came; it raises, or gives back the latter."""


def watched(
    feed: Feed, loaded: tf.data.Dataset, epoch: tf.Tensor, first: tf.Tensor, nothing: Sequence[tf.Tensor]
) -> tf.data.Dataset:
    """Samples without those that could not be read, which are reported; each comes with its place in the epoch.

    `nothing` is a sample without meaning, for the end.
    """

    def report(epoch: np.int64, low: np.int64, high: np.int64) -> np.int64:
        feed.leave_out(int(epoch), np.arange(low, high))
        return high

    return _without_gaps(feed, loaded, epoch, first, nothing, report)


def watched_batches(
    feed: Feed, batches: tf.data.Dataset, epoch: tf.Tensor, first: tf.Tensor, nothing: Sequence[tf.Tensor]
) -> tf.data.Dataset:
    """Batches of which none may be missing; each comes with the places of its samples in the epoch.

    Of a batch that could not be made nothing comes, and what comes next may begin anywhere behind it: it is the first
    gap that counts. `nothing` is a batch of no samples, for the end.
    """

    def report(epoch: np.int64, low: np.int64, high: np.int64) -> np.int64:
        places = np.arange(low, min(low + feed.batch_size, high))
        samples = feed.numbered.at(int(epoch), places).tolist()
        # Most of them can be read: it is one that could not.
        for sample in samples:
            reason = feed.source.reason(sample)
            if reason is not None:
                raise LowtideError(f"{feed.source.where(sample)}: {reason}", cure=CURE)
        told = f"{feed.source.where(samples[0])}, or one of the {len(samples) - 1:,} behind it"
        raise LowtideError(f"{told}: {ONLY_NOW}", cure="see whether the disk and the memory are in order")

    kept = _without_gaps(feed, batches, epoch, first, nothing, report)
    if not feed.drop_remainder:
        return kept

    def set_size(*tensors: tf.Tensor) -> Any:
        whole = tuple(tf.ensure_shape(tensor, (feed.batch_size, *tensor.shape[1:])) for tensor in tensors)
        return whole if len(whole) > 1 else whole[0]

    return kept.map(set_size)


def _without_gaps(
    feed: Feed,
    loaded: tf.data.Dataset,
    epoch: tf.Tensor,
    first: tf.Tensor,
    nothing: Sequence[tf.Tensor],
    report: Report,
) -> tf.data.Dataset:
    """Elements without their places, or place, which come first in each."""
    is_batch = loaded.element_spec[0].shape.rank == 1
    whole = tf.constant(feed.whole, tf.int64)
    before = in_python(feed, lambda epoch: np.int64(feed.before.get(int(epoch), 0)), [epoch], tf.int64)
    first = tf.minimum(first + tf.ensure_shape(before, ()), whole)
    end = tf.data.Dataset.from_tensors((whole[tf.newaxis] if is_batch else whole, *nothing))

    def look(expected: tf.Tensor, element: tuple[tf.Tensor, ...]) -> Any:
        places, *tensors = element
        place, count = (places[0], tf.size(places, tf.int64)) if is_batch else (places, tf.constant(1, tf.int64))
        seen = tf.cond(
            place > expected,
            lambda: tf.ensure_shape(in_python(feed, report, [epoch, expected, place], tf.int64), ()),
            lambda: place,
        )
        return seen + count, (seen, *tensors)

    kept = loaded.ignore_errors().concatenate(end).scan(first, look).take_while(lambda place, *tensors: place < whole)
    return kept.map(lambda place, *tensors: tensors if len(tensors) > 1 else tensors[0])
