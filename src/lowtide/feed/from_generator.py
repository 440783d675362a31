"""`lt.feed.generator`: a dataset over what a Python generator gives, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.options import RAISE, ShardGiven, check_batch, check_on_error, chosen_seed, split_shard
from lowtide.feed.pipeline.pipeline import Feed, begun, finish, held
from lowtide.feed.pipeline.sizing import choose_sizes
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
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of the samples that `make()` yields, each as `spec` says: tf.TensorSpecs with whole shapes.

    `make` is called anew for each epoch. A generator cannot be read at random: `shuffle` draws each sample from a
    buffer that takes what the budget leaves. With a bookmark, samples that were used are made again and thrown away.
    A sample that is not as `spec` says is an error that names its number; `on_error="skip"` leaves it out. An error in
    the generator itself always ends the epoch with an error, because nothing can come after it.
    """
    check_batch(batch_size)
    check_on_error(on_error)
    if not callable(make):
        raise LowtideError(
            "a generator can be read once only", given=type(make).__name__, cure="give the function that makes it"
        )
    size = 0
    specs = tf.nest.flatten(spec)
    for each in specs:
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
    feed = Feed(
        stream, None, batch_size, drop_remainder, sizing, bookmark, on_error, told=stream.describe(), shuffles=shuffle
    )
    give = held(feed, partial(checked, make, spec, feed))

    def of_epoch(epoch: tf.Tensor, first: tf.Tensor) -> tf.data.Dataset:
        samples = tf.data.Dataset.from_generator(give, output_signature=tuple(specs))
        samples = samples.map(lambda *tensors: tf.nest.pack_sequence_as(spec, tensors))
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


def checked(make: Callable[[], Iterable[Any]], spec: Any, feed: Feed) -> Iterator[tuple[Any, ...]]:
    """The samples of an epoch as flat tuples of arrays, each of which is as `spec` says."""
    number = kept = 0
    samples: Iterator[Any] | None = None
    while True:
        try:
            samples = iter(make()) if samples is None else samples
            sample = next(samples)
        except StopIteration:
            break
        except Exception as error:
            told = f"the generator ended with an error at sample {number}: {type(error).__name__}: {error}"
            raise LowtideError(told, cure="mend it; nothing can come after it") from error
        try:
            content = tuple(_fitted(each, value) for each, value in _leaves(spec, sample))
        except _Odd as error:
            told = f"{feed.source.where(number)} is not as spec says: {error}"
            if feed.on_error == RAISE:
                raise LowtideError(told, cure='mend it, or give on_error="skip"') from error
            feed.problems.append(told)
        else:
            kept += 1
            yield content
        number += 1
    if not kept:
        given = f"{number:,} that are not as spec says" if number else "none"
        raise LowtideError("the generator gave no samples", given=given, cure="make it anew each time it is asked for")


class _Odd(Exception):
    """A sample that is not as it should be."""


def _leaves(spec: Any, sample: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a sample, each with what it should be, in the order of tf.nest."""
    if isinstance(spec, Mapping):
        if not isinstance(sample, Mapping) or set(sample) != set(spec):
            found = f"has {', '.join(map(str, sample))}" if isinstance(sample, Mapping) else _kind(sample)
            raise _Odd(f"it {found} for {', '.join(map(str, spec))}")
        for key in sorted(spec):
            yield from _leaves(spec[key], sample[key])
    elif isinstance(spec, tuple | list):
        if not isinstance(sample, tuple | list) or len(sample) != len(spec):
            found = f"has {len(sample)} parts" if isinstance(sample, tuple | list) else _kind(sample)
            raise _Odd(f"it {found} for {len(spec)} parts")
        for each, part in zip(spec, sample, strict=True):
            yield from _leaves(each, part)
    else:
        yield spec, sample


def _kind(sample: Any) -> str:
    return f"is one {type(sample).__name__}"


def _fitted(spec: Any, value: Any) -> Any:
    """A part of a sample in its type; numbers that would become others are refused."""
    if not isinstance(spec, tf.TensorSpec):
        return value
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise _Odd("it has rows of different lengths") from error
    if found.shape != tuple(spec.shape):
        raise _Odd(f"shape {found.shape} for {tuple(spec.shape)}")
    if spec.dtype == tf.string:
        if found.dtype.kind not in "SUO":
            raise _Odd(f"{found.dtype} for a text")
        return found
    wanted = spec.dtype.as_numpy_dtype
    if found.dtype == wanted:
        return found
    if found.dtype.kind not in "biufc" or (found.dtype.kind == "c" and np.dtype(wanted).kind != "c"):
        raise _Odd(f"{found.dtype} for {spec.dtype.name}")
    with np.errstate(invalid="ignore", over="ignore"):
        fitted = found.astype(wanted)
    if np.dtype(wanted).kind in "biu" and not np.array_equal(fitted, found):
        raise _Odd(f"{found.dtype} whose numbers {spec.dtype.name} cannot hold")
    return fitted
