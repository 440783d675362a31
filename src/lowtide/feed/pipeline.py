"""A tf.data pipeline over samples: which batch comes when, who reads it, and what waits ready."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.array_files import Rows
from lowtide.feed.bookmark import Bookmark
from lowtide.feed.options import RAISE
from lowtide.feed.order import Order, Places
from lowtide.feed.samples import Field, Samples
from lowtide.feed.sizing import Sizing
from lowtide.units import format_bytes


class Source(Protocol):
    """Where samples come from, as far as messages need it."""

    def where(self, sample: int) -> str:
        """Where a sample lies."""
        ...

    def reason(self, sample: int) -> str | None:
        """Why it cannot be read; None if it can be."""
        ...


@dataclass
class Feed:
    """What stands behind a dataset: its samples, their order, what it holds, and what was wrong with it."""

    source: Source
    order: Order | None
    """Which sample is where; None where they come one after the other, and nobody knows how many there are."""
    batch_size: int
    drop_remainder: bool
    sizing: Sizing
    bookmark: Bookmark | None = None
    """Says where an iteration begins; without one each is the next epoch."""
    on_error: str = RAISE
    told: str = ""
    """What is said of samples that have no order."""
    epochs: int = 0
    """How many iterations were begun."""
    problems: list[str] = field(default_factory=list)
    """What was left out, where it lies, and why."""

    @property
    def steps(self) -> int | None:
        """How many batches an epoch has; None where nobody knows."""
        if self.order is None:
            return None
        whole, rest = divmod(self.order.count, self.batch_size)
        return whole + bool(rest and not self.drop_remainder)

    def begin(self) -> tuple[np.int64, np.int64]:
        """Begin an iteration: of which epoch, and at which step."""
        self.epochs += 1
        if self.bookmark is not None:
            return np.int64(self.bookmark.epoch), np.int64(self.bookmark.step)
        return np.int64(self.epochs - 1), np.int64(0)

    @property
    def numbered(self) -> Order:
        """The order of samples that have one."""
        assert self.order is not None
        return self.order

    def places_of(self, step: int, run: int = 1) -> Places:
        """The places of a batch in an epoch, or of a run of batches."""
        low = step * self.batch_size
        return np.arange(low, min(low + run * self.batch_size, self.numbered.count if run == 1 else self.used))

    def samples_of(self, epoch: int, step: int, run: int = 1) -> Places:
        """The numbers of a batch's samples, or of a run of batches."""
        return self.numbered.at(epoch, self.places_of(step, run))

    @property
    def used(self) -> int:
        """How many samples an epoch has, without those of a last batch that is dropped."""
        return min(self.numbered.count, (self.steps or 0) * self.batch_size)

    def describe(self) -> str:
        """What it does and holds, in a line each."""
        sizing = self.sizing
        batches = "batches" if self.steps is None else f"{self.steps:,} batches"
        lines = [
            self.told if self.order is None else self.order.describe(),
            f"{batches} of {self.batch_size:,} an epoch, {format_bytes(sizing.batch_bytes)} each",
            f"at most {format_bytes(sizing.peak_bytes)} of {format_bytes(sizing.budget_bytes)}: "
            f"{sizing.readers} read at a time, {sizing.ahead} ready ahead"
            + (f", {format_bytes(sizing.window_bytes)} of blocks" if sizing.window_bytes else ""),
        ]
        return "\n".join(lines)


# Datasets are made by TensorFlow and copied by it: what stands behind one is found beside it.
_FEEDS: weakref.WeakKeyDictionary[Any, Feed] = weakref.WeakKeyDictionary()


def feed_of(dataset: tf.data.Dataset) -> Feed:
    """What stands behind a dataset that lowtide made."""
    found = _FEEDS.get(dataset)
    if found is None:
        raise LowtideError(
            "this dataset is not one of lowtide's", given=type(dataset).__name__, cure="give what lt.feed returned"
        )
    return found


def describe(dataset: tf.data.Dataset) -> str:
    """What a dataset of lowtide's does and holds: its order, its batches, and its bytes."""
    return feed_of(dataset).describe()


def problems(dataset: tf.data.Dataset) -> list[str]:
    """What a dataset with `on_error="skip"` has left out so far: where it lies, and why."""
    return list(feed_of(dataset).problems)


def make_dataset(feed: Feed, samples: Samples, structure: Any) -> tf.data.Dataset:
    """The dataset of samples that are read by number; `structure` has the numbers of fields where tensors are to be."""
    fields = samples.fields
    types = [tf.as_dtype(each.dtype) for each in fields]
    run = feed.sizing.run
    batch = feed.batch_size if feed.drop_remainder and run == 1 else None

    def read(epoch: np.int64, step: np.int64) -> list[Rows]:
        # TensorFlow takes the arrays over without a copy.
        return samples.read(feed.samples_of(int(epoch), int(step), run))

    def load(epoch: tf.Tensor, step: tf.Tensor) -> Any:
        tensors = tf.numpy_function(read, [epoch, step], types)
        for tensor, each in zip(tensors, fields, strict=True):
            tensor.set_shape((batch, *each.shape))
        return tf.nest.map_structure(lambda number: tensors[number], structure)

    steps = iterations(feed, lambda epoch, steps, _: steps.map(lambda step: (epoch, step)), run)
    readers = feed.sizing.readers
    batches = steps.map(load, num_parallel_calls=readers if readers > 1 else None, deterministic=True)
    return finish(feed, batches if run == 1 else _cut(feed, batches))


def _cut(feed: Feed, runs: tf.data.Dataset) -> tf.data.Dataset:
    """The batches of runs, which have the memory of their run."""
    size = feed.batch_size

    def cut_run(*run: Any) -> tf.data.Dataset:
        # A tuple comes as several arguments.
        whole = run if len(run) > 1 else run[0]

        def cut(low: tf.Tensor) -> Any:
            batch = tf.nest.map_structure(lambda tensor: tensor[low : low + size], whole)
            if feed.drop_remainder:
                batch = tf.nest.map_structure(lambda tensor: tf.ensure_shape(tensor, (size, *tensor.shape[1:])), batch)
            return batch

        rows = tf.shape(tf.nest.flatten(whole)[0], tf.int64)[0]
        return tf.data.Dataset.range(0, rows, size).map(cut)

    return runs.flat_map(cut_run)


Epoch = Callable[[tf.Tensor, tf.data.Dataset, tf.Tensor], tf.data.Dataset]
"""Gives the elements of an epoch: its number, the steps that are left of it, and the first of them."""


def iterations(feed: Feed, of_epoch: Epoch, run: int = 1) -> tf.data.Dataset:
    """A dataset that is the next epoch each time that it is iterated over; of each run only the first step comes."""

    # TensorFlow would rewrite all functions in there, also those that only Python calls, and errors would show it.
    @tf.autograph.experimental.do_not_convert
    def make(epoch: tf.Tensor, first: tf.Tensor) -> tf.data.Dataset:
        return of_epoch(epoch, tf.data.Dataset.range(first, feed.steps, run), first)

    return begun(feed).flat_map(make)


def begun(feed: Feed) -> tf.data.Dataset:
    """The epoch and the first step of an iteration; each iterator has them as its own, whatever others do."""

    def begin(_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        epoch, first = tf.numpy_function(feed.begin, [], [tf.int64, tf.int64])
        return tf.ensure_shape(epoch, ()), tf.ensure_shape(first, ())

    return tf.data.Dataset.from_tensors(0).map(begin)


LookUp = Callable[[Places], Sequence[Rows]]
"""What is known of some samples without reading them."""


def samples_of(
    feed: Feed, epoch: tf.Tensor, step: tf.Tensor, look_up: LookUp | None = None, known: Sequence[Field] = ()
) -> tf.data.Dataset:
    """The samples of a batch one by one: the place of each in the epoch, and its number, or what is known of it."""

    def find(epoch: np.int64, step: np.int64) -> list[Rows]:
        samples = feed.samples_of(int(epoch), int(step))
        return [feed.places_of(int(step)), *([samples] if look_up is None else look_up(samples))]

    fields = known or [Field("sample", (), np.dtype(np.int64))]
    tensors = tf.numpy_function(find, [epoch, step], [tf.int64, *(tf.as_dtype(each.dtype) for each in fields)])
    for tensor, shape in zip(tensors, [(), *(each.shape for each in fields)], strict=True):
        tensor.set_shape((None, *shape))
    return tf.data.Dataset.from_tensor_slices(tuple(tensors))


def reason_of(error: tf.errors.OpError) -> str:
    """What an error of TensorFlow's says, without where in TensorFlow it was."""
    return re.sub(r"\{\{.*?\}\}|\[Op:.*|\[\[.*", "", error.message, flags=re.DOTALL).strip()


def finish(feed: Feed, batches: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset that the user gets: with batches ready ahead, and nothing that nobody has counted."""
    if feed.sizing.ahead:
        batches = batches.prefetch(feed.sizing.ahead)
    is_known = feed.steps is not None and feed.on_error == RAISE
    if feed.bookmark is None and is_known:
        batches = batches.apply(tf.data.experimental.assert_cardinality(feed.steps))
    dataset = batches.with_options(_options(feed.sizing.readers))
    if feed.bookmark is not None and is_known:
        # The rest of an epoch is shorter than the others, which TensorFlow would take for an error; and of a dataset
        # that does not say how long it is Keras believes that all epochs are as long as the first.
        dataset.cardinality = lambda: tf.constant(feed.steps, tf.int64)
    _FEEDS[dataset] = feed
    return dataset


def _options(readers: int) -> tf.data.Options:
    options = tf.data.Options()
    # The budget says how much is read ahead: nothing may add buffers. Those that have a size keep it.
    options.experimental_optimization.inject_prefetch = False
    # It has nothing to tune. Its thread sleeps for as long as the pipeline has run, up to a minute, and is not always
    # woken when an iterator is given up, which then waits for it: an epoch would take up to twice its time.
    options.autotune.enabled = False
    # The C library keeps memory for every thread that had some: there are no more of them than work.
    options.threading.private_threadpool_size = readers + 1
    # Which batch comes next depends on its number alone; that Python reads it is nothing to be saved.
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    # A symbolic checkpoint would ask anew which epoch it is; with the batches that are ready it is saved as it was.
    options.experimental_symbolic_checkpoint = False
    return options


def batch_bytes(fields: Sequence[Field], batch_size: int) -> int:
    """What a batch takes."""
    return batch_size * sum(each.bytes for each in fields)
