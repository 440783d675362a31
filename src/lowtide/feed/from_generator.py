"""`lt.feed.generator`: a dataset over what a Python generator gives, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.bookmark import Bookmark
from lowtide.feed.options import ShardGiven, check_batch, chosen_seed, split_shard
from lowtide.feed.pipeline import Feed, begun, finish
from lowtide.feed.sizing import choose_sizes
from lowtide.units import format_bytes, parse_bytes


@dataclass(frozen=True)
class Stream:
    """What is known of samples that come one after the other."""

    sample_bytes: int
    buffered: int
    """Among how many samples each is drawn."""

    def where(self, sample: int) -> str:
        return f"sample {sample} of the generator"

    def reason(self, sample: int) -> str:
        return "it cannot be read"

    def describe(self) -> str:
        if self.buffered <= 1:
            return "samples as they come"
        room = format_bytes(self.buffered * self.sample_bytes)
        return f"each sample drawn from the next {self.buffered:,} ({room}): a generator cannot be read at random"


def generator(
    make: Callable[[], Iterable[Any]],
    spec: Any,
    *,
    batch_size: int,
    budget: str | int,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: ShardGiven = None,
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of the samples that `make()` yields, each as `spec` says: tf.TensorSpecs with whole shapes.

    `make` is called anew for each epoch. A generator cannot be read at random: `shuffle` draws each sample from a
    buffer that takes what the budget leaves. With a bookmark, samples that were used are made again and thrown away.
    """
    check_batch(batch_size)
    size = 0
    for each in tf.nest.flatten(spec):
        if not each.shape.is_fully_defined():
            raise LowtideError(
                "how many bytes a sample takes is not known", given=each, cure="give whole shapes in spec"
            )
        size += int(np.prod(each.shape.as_list(), dtype=np.int64)) * max(each.dtype.size, 1)
    budget_bytes = parse_bytes(budget)
    # A sample is there in Python and in TensorFlow while it is handed over; a batch is copied from its samples.
    fixed = 2 * size + batch_size * size
    sizing = choose_sizes(budget_bytes, batch_size * size, 1, batch_size * size if shuffle else 0, fixed)
    stream = Stream(size, sizing.window_bytes // max(size, 1) if shuffle else 0)
    # Odd, because TensorFlow takes a pair of zeros for no seed.
    order_seed = (chosen_seed(seed, bookmark) & 0x3FFFFFFF) * 2 + 1
    index, count = split_shard(shard)
    feed = Feed(stream, None, batch_size, drop_remainder, sizing, bookmark, told=stream.describe())

    def of_epoch(epoch: tf.Tensor, first: tf.Tensor) -> tf.data.Dataset:
        samples = tf.data.Dataset.from_generator(make, output_signature=spec)
        if count > 1:
            samples = samples.shard(count, index)
        if stream.buffered > 1:
            # The order is the same after a restart, and another one in each epoch. Where this graph has a seed, the one
            # that the program may have set for all of TensorFlow does not count.
            if not tf.executing_eagerly():
                tf.random.set_seed(order_seed)
            samples = samples.shuffle(stream.buffered, epoch)
        return samples.batch(batch_size, drop_remainder=drop_remainder).skip(first)

    return finish(feed, begun(feed).flat_map(of_epoch))
