"""`lt.feed.generator`: datasets over the samples of a Python generator, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.dataset import finish_dataset
from lowtide.feed.pipeline.exit_guard import refuse_at_exit
from lowtide.feed.pipeline.feed import Feed
from lowtide.feed.pipeline.options import FeedOptions, ShardSpec
from lowtide.feed.pipeline.pipeline import make_starts
from lowtide.feed.pipeline.pooled_batches import move_to_pool
from lowtide.feed.pipeline.sizing import choose_sizes, kept_for_thread
from lowtide.feed.readers.buffer_pool import BufferPool
from lowtide.units import format_bytes, format_count

# The samples of the shuffle buffer come from the C library, where at worst there is a hole of its size beside each, in
# each of two threads that make them: with half of it a process beside heavy load took 71 MiB for a budget of 64.
_HELD_TIMES = 4


@dataclass(frozen=True)
class GeneratorSource:
    """Samples that come one after the other."""

    sample_bytes: int
    buffered: int
    """The number of samples of the shuffle buffer."""

    def where(self, sample: int) -> str:
        return f"sample {sample} of the generator"

    def reason(self, sample: int) -> str:
        return "it cannot be read"

    def describe(self) -> str:
        if self.buffered <= 1:
            return "samples in the order of the generator"
        room = format_bytes(self.buffered * self.sample_bytes)
        return f"each sample drawn from the next {self.buffered:,} ({room}): a generator has no random access"


def generator(
    make: Callable[[], Iterable[Any]],
    spec: Any,
    *,
    batch_size: int,
    budget: str | int,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: ShardSpec = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of the samples that `make()` yields; `spec` is a structure of tf.TensorSpecs with full shapes.

    `make` is called once for each epoch. A generator has no random access: `shuffle` draws each sample from a buffer
    that takes the rest of the budget. With a bookmark, samples that were already used are generated again and dropped.
    A sample that does not match `spec` is an error that names its number; `on_error="skip"` leaves it out. An error in
    the generator itself always ends the epoch with an error, because no sample can follow.
    """
    options = FeedOptions(batch_size, budget, shuffle, seed, drop_remainder, shard, on_error, bookmark)
    if not callable(make):
        raise LowtideError(
            "a generator can be read only once" if isinstance(make, Iterator) else "make is not a function",
            given=type(make).__name__,
            cure="give the function that makes it",
        )
    size = 0
    specs = tf.nest.flatten(spec)
    for each in specs:
        if not each.shape.is_fully_defined():
            raise LowtideError("the size of a sample is not known", given=each, cure="give full shapes in spec")
        size += int(np.prod(each.shape.as_list(), dtype=np.int64)) * max(each.dtype.size, 1)
    # A sample is in memory in Python and in TensorFlow while it is handed over; a batch is copied from its samples, and
    # then to the pool.
    fixed = 2 * size + kept_for_thread(batch_size * size)
    sizing = choose_sizes(options.budget_bytes, batch_size * size, 1, batch_size * size if shuffle else 0, fixed)
    buffered = sizing.window_bytes // (_HELD_TIMES * max(size, 1))
    source = GeneratorSource(size, max(buffered, 1) if shuffle else 0)
    # Odd, because TensorFlow treats a pair of zeros as no seed.
    order_seed = (options.seed & 0x3FFFFFFF) * 2 + 1
    index, count = options.shard_index
    feed = Feed(source, None, options, sizing, source.describe())
    generate = feed.weak_callback(partial(_generate, make, spec, feed))

    def make_epoch(epoch: tf.Tensor, first: tf.Tensor) -> tf.data.Dataset:
        samples = tf.data.Dataset.from_generator(generate, output_signature=tuple(specs))
        samples = samples.map(lambda *tensors: tf.nest.pack_sequence_as(spec, tensors))
        if count > 1:
            samples = samples.shard(count, index)
        if source.buffered > 1:
            # The order is the same after a restart, and differs between epochs. The seed of this graph overrides the
            # global seed that the program may have set.
            if not tf.executing_eagerly():
                tf.random.set_seed(order_seed)
            samples = samples.shuffle(source.buffered, epoch)
        return samples.batch(batch_size, drop_remainder=drop_remainder).skip(first).map(pool)

    def pool(*batch: Any) -> Any:
        # tf.data passes a tuple as several arguments.
        structure = batch if len(batch) > 1 or isinstance(spec, tuple) else batch[0]
        return tf.nest.pack_sequence_as(structure, move_to_pool(feed, buffers, tf.nest.flatten(structure)))

    buffers = BufferPool()
    return finish_dataset(feed, make_starts(feed).flat_map(make_epoch))


def _generate(make: Callable[[], Iterable[Any]], spec: Any, feed: Feed) -> Iterator[tuple[Any, ...]]:
    """Yield the samples of an epoch as flat tuples of arrays that match `spec`."""
    number = kept = 0
    samples: Iterator[Any] | None = None
    take = refuse_at_exit(next)
    while True:
        try:
            samples = iter(make()) if samples is None else samples
            sample = take(samples)
        except StopIteration:
            break
        except Exception as error:
            problem = f"the generator raised an error at sample {number}: {type(error).__name__}: {error}"
            raise LowtideError(problem, cure="correct it; no sample can follow") from error
        try:
            content = tuple(_convert(each, value) for each, value in _match_leaves(spec, sample))
        except _SpecMismatch as error:
            problem = f"{feed.source.where(number)} does not match spec: {error}"
            if not feed.options.skips_errors:
                raise LowtideError(problem, cure='correct it, or give on_error="skip"') from error
            feed.problems.append(problem)
        else:
            kept += 1
            yield content
        number += 1
    if not kept:
        given = f"{number:,} that do not match spec" if number else "none"
        raise LowtideError("the generator gave no samples", given=given, cure="return a new generator each time")


class _SpecMismatch(Exception):
    """A sample that does not match the spec."""


def _match_leaves(spec: Any, sample: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the tensors of a sample, each with its spec, in the order of tf.nest."""
    if isinstance(spec, Mapping):
        if not isinstance(sample, Mapping) or set(sample) != set(spec):
            found = f"has {', '.join(map(str, sample))}" if isinstance(sample, Mapping) else _name_type(sample)
            raise _SpecMismatch(f"it {found} for {', '.join(map(str, spec))}")
        for key in sorted(spec):
            yield from _match_leaves(spec[key], sample[key])
    elif isinstance(spec, tuple | list):
        if not isinstance(sample, tuple | list) or len(sample) != len(spec):
            found = (
                f"has {format_count(len(sample), 'part')}" if isinstance(sample, tuple | list) else _name_type(sample)
            )
            raise _SpecMismatch(f"it {found} for {format_count(len(spec), 'part')}")
        for each, part in zip(spec, sample, strict=True):
            yield from _match_leaves(each, part)
    else:
        yield spec, sample


def _name_type(sample: Any) -> str:
    return f"is one {type(sample).__name__}"


def _convert(spec: Any, value: Any) -> Any:
    """Convert a tensor of a sample to its dtype; integers that the dtype cannot represent are refused."""
    if not isinstance(spec, tf.TensorSpec):
        return value
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise _SpecMismatch("it has rows of different lengths") from error
    if found.shape != tuple(spec.shape):
        raise _SpecMismatch(f"shape {found.shape} for {tuple(spec.shape)}")
    if spec.dtype == tf.string:
        if found.dtype.kind not in "SUO":
            raise _SpecMismatch(f"{found.dtype} for a text")
        return found
    wanted = spec.dtype.as_numpy_dtype
    if found.dtype == wanted:
        return found
    if found.dtype.kind not in "biufc" or (found.dtype.kind == "c" and np.dtype(wanted).kind != "c"):
        raise _SpecMismatch(f"{found.dtype} for {spec.dtype.name}")
    with np.errstate(invalid="ignore", over="ignore"):
        converted = found.astype(wanted)
    if np.dtype(wanted).kind in "biu" and not np.array_equal(converted, found):
        raise _SpecMismatch(f"{found.dtype} whose numbers {spec.dtype.name} cannot hold")
    return converted
