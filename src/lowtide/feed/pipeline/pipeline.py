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
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.options import RAISE
from lowtide.feed.pipeline.order import InTurn, Order, Places, Shard
from lowtide.feed.pipeline.sizing import Sizing
from lowtide.feed.readers.array_files import Rows
from lowtide.feed.readers.array_samples import Field, Samples
from lowtide.units import format_bytes

CURE = 'mend or remove it, or give on_error="skip"'
ONLY_NOW = "it could be read only now"
# More batches than an epoch has.
_MANY = 1 << 40


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
    shuffles: bool = False
    """Whether those are shuffled."""
    epochs: int = 0
    """How many iterations were begun."""
    problems: list[str] = field(default_factory=list)
    """What was left out, where it lies, and why."""
    notes: list[str] = field(default_factory=list)
    """What else there is to say of it."""
    left_out: dict[int, set[int]] = field(default_factory=dict)
    """By epoch, the places whose samples were left out since it was begun."""
    before: dict[int, int] = field(default_factory=dict)
    """By epoch, how many samples were left out before the batch at which it was begun."""
    functions: list[Callable[..., Any]] = field(default_factory=list)
    """What TensorFlow calls while the dataset is there."""
    in_graph: bool = field(default_factory=lambda: not tf.executing_eagerly())
    """Whether it was made within a graph, which then needs it as long as it is there itself."""

    @property
    def steps(self) -> int | None:
        """How many batches an epoch has; None where nobody knows."""
        if self.order is None:
            return None
        whole, rest = divmod(self.order.count, self.batch_size)
        return whole + bool(rest and not self.drop_remainder)

    @property
    def is_exact(self) -> bool:
        """Whether every iteration has the same number of batches."""
        return self.bookmark is None and self.on_error == RAISE

    @property
    def most_steps(self) -> int:
        """The number of batches of an epoch if no sample is left out, or one of TensorFlow's special values."""
        if self.steps is not None:
            return self.steps
        # The number is unknown; only that the rest of this epoch is shorter than the next ones.
        return _MANY if self.bookmark is not None and self.bookmark.step else tf.data.UNKNOWN_CARDINALITY

    def begin(self) -> tuple[np.int64, np.int64]:
        """Begin an iteration: of which epoch, and at which step."""
        self.epochs += 1
        if self.bookmark is None:
            self.left_out = {}
            return np.int64(self.epochs - 1), np.int64(0)
        self.turn_page()
        epoch, step = self.bookmark.epoch, self.bookmark.step
        self.left_out, self.before = {}, {epoch: self.bookmark.left_out}
        return np.int64(epoch), np.int64(step)

    def turn_page(self) -> None:
        """Let the bookmark say that an epoch is over if it was left behind the last batch."""
        mark = self.bookmark
        if mark is None or self.order is None or mark.step == 0:
            return
        if mark.step * self.batch_size + mark.left_out >= self.whole:
            mark.move_to(mark.epoch + 1, 0)

    def left_out_before(self, epoch: int, step: int) -> int:
        """How many samples were left out before a batch, so that it begins that much later in the epoch."""
        place = begin = step * self.batch_size
        place += self.before.get(epoch, 0)
        for each in sorted(self.left_out.get(epoch, ())):
            place += each < place
        return place - begin

    def leave_out(self, epoch: int, places: Places) -> None:
        """Report samples that cannot be read, or end with the first of them."""
        for place, sample in zip(places.tolist(), self.numbered.at(epoch, places).tolist(), strict=True):
            told = f"{self.source.where(sample)}: {self.source.reason(sample) or ONLY_NOW}"
            if self.on_error == RAISE:
                raise LowtideError(told, cure=CURE)
            self.problems.append(told)
            lost = self.left_out.setdefault(epoch, set())
            lost.add(place)
            if len(lost) >= self.whole:
                raise LowtideError("not one sample can be read", given=told, cure="see lt.feed.problems(dataset)")

    @property
    def numbered(self) -> Order:
        """The order of samples that have one."""
        assert self.order is not None
        return self.order

    @property
    def is_shuffled(self) -> bool:
        """Whether samples come in another order than they lie."""
        order = self.order.whole if isinstance(self.order, Shard) else self.order
        return self.shuffles if order is None else not isinstance(order, InTurn)

    @property
    def whole(self) -> int:
        """How many samples an epoch has: those of a last batch that is dropped do not come."""
        return min(self.numbered.count, (self.steps or 0) * self.batch_size)

    def places_of(self, epoch: int, step: int, run: int = 1) -> Places:
        """The places of a batch in an epoch, or of a run of batches."""
        low = step * self.batch_size + self.before.get(epoch, 0)
        return np.arange(low, min(low + run * self.batch_size, self.whole))

    def samples_of(self, epoch: int, step: int) -> Places:
        """The numbers of a batch's samples."""
        return self.numbered.at(epoch, self.places_of(epoch, step))

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
        return "\n".join([*lines, *self.notes])


class FedDataset(tf.data.Dataset):
    """A dataset that lt.feed made, together with its feed.

    It shares the variant tensor of the dataset it wraps, so it adds no stage to the pipeline. `map`, `prefetch` and
    `with_options` do not change the number of batches: their results still belong to the feed.
    """

    def __init__(self, dataset: tf.data.Dataset, feed: Feed) -> None:
        self._dataset = dataset
        self.feed = feed
        super().__init__(dataset._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._dataset]

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec

    def cardinality(self) -> tf.Tensor:
        """The number of batches of a whole epoch, also when an iteration starts later or skips samples.

        Keras assumes that all epochs are as long as the first one, unless a dataset has a cardinality.
        """
        return super().cardinality() if self.feed.is_exact else tf.constant(self.feed.most_steps, tf.int64)

    def map(self, *args: Any, **kwargs: Any) -> FedDataset:
        return FedDataset(super().map(*args, **kwargs), self.feed)

    def prefetch(self, *args: Any, **kwargs: Any) -> FedDataset:
        return FedDataset(super().prefetch(*args, **kwargs), self.feed)

    def with_options(self, *args: Any, **kwargs: Any) -> FedDataset:
        return FedDataset(super().with_options(*args, **kwargs), self.feed)


def feed_of(dataset: tf.data.Dataset) -> Feed:
    """The feed of a dataset that lowtide made."""
    if not isinstance(dataset, FedDataset):
        raise LowtideError(
            "this dataset is not one of lowtide's", given=type(dataset).__name__, cure="give what lt.feed returned"
        )
    return dataset.feed


def describe(dataset: tf.data.Dataset) -> str:
    """What a dataset of lowtide's does and holds: its order, its batches, and its bytes."""
    return feed_of(dataset).describe()


def problems(dataset: tf.data.Dataset) -> list[str]:
    """What a dataset with `on_error="skip"` has left out so far: where it lies, and why."""
    # What is broken is broken in every epoch.
    return list(dict.fromkeys(feed_of(dataset).problems))


def make_dataset(feed: Feed, samples: Samples, structure: Any) -> tf.data.Dataset:
    """The dataset of samples that are read by number; `structure` has the numbers of fields where tensors are to be."""
    fields = samples.fields
    types = [tf.as_dtype(each.dtype) for each in fields]
    may_be_short = feed.on_error != RAISE
    run = feed.sizing.run
    batch = feed.batch_size if feed.drop_remainder and run == 1 and not may_be_short else None

    def read(epoch: np.int64, step: np.int64) -> list[Rows]:
        places = feed.places_of(int(epoch), int(step), run)
        # TensorFlow takes the arrays over without a copy.
        rows, missing = samples.read(feed.numbered.at(int(epoch), places))
        if missing.any():
            feed.leave_out(int(epoch), places[missing])
            rows = [each[~missing] for each in rows]
        return rows

    def load(epoch: tf.Tensor, step: tf.Tensor) -> Any:
        tensors = in_python(feed, read, [epoch, step], types)
        for tensor, each in zip(tensors, fields, strict=True):
            tensor.set_shape((batch, *each.shape))
        return tf.nest.map_structure(lambda number: tensors[number], structure)

    steps = iterations(feed, lambda epoch, steps, _: steps.map(lambda step: (epoch, step)), run)
    readers = feed.sizing.readers
    # TensorFlow warns who says how several readers are to behave where there is one.
    several = {"num_parallel_calls": readers, "deterministic": True} if readers > 1 else {}
    batches = steps.map(load, **several)
    if may_be_short:
        # What was left out is made up for by the samples that follow.
        batches = batches.rebatch(feed.batch_size, drop_remainder=feed.drop_remainder)
    if run > 1:
        batches = _cut(feed, batches)
    return finish(feed, batches)


def in_python(feed: Feed, function: Callable[..., Any], inputs: Sequence[Any], types: Any) -> Any:
    """What a Python function gives, as tensors."""
    return tf.numpy_function(held(feed, function), inputs, types)


def held(feed: Feed, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for TensorFlow to call.

    TensorFlow keeps such functions until the process ends. So that it does not keep files and blocks with them, it
    gets one that finds ours only while the dataset is there.
    """
    if feed.in_graph:
        return function
    feed.functions.append(function)
    known = weakref.ref(function)

    def call(*given: Any) -> Any:
        found = known()
        if found is None:
            raise LowtideError("the dataset is gone", cure="keep what lt.feed returned as long as what is made of it")
        return found(*given)

    return call


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
        epoch, first = in_python(feed, feed.begin, [], [tf.int64, tf.int64])
        return tf.ensure_shape(epoch, ()), tf.ensure_shape(first, ())

    return tf.data.Dataset.from_tensors(0).map(begin)


LookUp = Callable[[Places], Sequence[Rows]]
"""What is known of some samples without reading them."""


def samples_of(
    feed: Feed, epoch: tf.Tensor, step: tf.Tensor, look_up: LookUp | None = None, known: Sequence[Field] = ()
) -> tf.data.Dataset:
    """The samples of a batch one by one: the place of each in the epoch, and its number, or what is known of it."""

    def find(epoch: np.int64, step: np.int64) -> list[Rows]:
        places = feed.places_of(int(epoch), int(step))
        samples = feed.numbered.at(int(epoch), places)
        return [places, *([samples] if look_up is None else look_up(samples))]

    fields = known or [Field("sample", (), np.dtype(np.int64))]
    tensors = in_python(feed, find, [epoch, step], [tf.int64, *(tf.as_dtype(each.dtype) for each in fields)])
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
    # TensorFlow checks this cardinality, and the rest of an epoch after a restart has fewer batches.
    if feed.is_exact and feed.steps is not None:
        batches = batches.apply(tf.data.experimental.assert_cardinality(feed.steps))
    if feed.bookmark is not None:
        feed.bookmark.belong_to(feed.left_out_before, feed.steps is None or feed.on_error != RAISE)
        feed.turn_page()
    return FedDataset(batches.with_options(_options(feed.sizing.readers)), feed)


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
