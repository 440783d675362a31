"""The state behind a dataset of lt.feed: its samples, their order, its sizes, and what could not be read."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.exit_guard import refuse_at_exit
from lowtide.feed.pipeline.options import FeedOptions
from lowtide.feed.pipeline.order import Order
from lowtide.feed.pipeline.sizing import Sizing
from lowtide.feed.readers.samples import Indices, SampleSource
from lowtide.units import format_bytes, format_count

CURE = 'repair or remove it, or give on_error="skip"'
UNREADABLE_ONCE = "reading it failed, but succeeded when tried again"
# More batches than any epoch has.
_MANY_STEPS = 1 << 40


@dataclass
class Feed:
    """The samples of a dataset, their order, the sizes of the pipeline, and the samples that could not be read."""

    source: SampleSource
    order: Order | None
    """None if samples come one after the other and their number is unknown."""
    options: FeedOptions
    sizing: Sizing
    description: str = ""
    """The description of the order, if `order` is None."""
    iterations: int = 0
    """The number of iterations that were started."""
    problems: list[str] = field(default_factory=list)
    """The samples that were left out, and why."""
    notes: list[str] = field(default_factory=list)
    skipped: dict[int, set[int]] = field(default_factory=dict)
    """By epoch, the positions that were left out since the iteration started."""
    skipped_before: dict[int, int] = field(default_factory=dict)
    """By epoch, the number of samples that were left out before the batch at which the iteration started."""
    callbacks: list[Callable[..., Any]] = field(default_factory=list)
    """The functions that TensorFlow calls by weak reference, see `weak_callback`."""
    in_graph: bool = field(default_factory=lambda: not tf.executing_eagerly())
    """Whether the dataset was made within a graph, which needs the feed for as long as the graph exists."""

    @property
    def batch_size(self) -> int:
        return self.options.batch_size

    @property
    def bookmark(self) -> Bookmark | None:
        """Where an iteration starts; without one each iteration is the next epoch."""
        return self.options.bookmark

    @property
    def steps(self) -> int | None:
        """The number of batches of an epoch if no sample is left out; None if unknown."""
        if self.order is None:
            return None
        full, rest = divmod(self.order.count, self.batch_size)
        return full + bool(rest and not self.options.drop_remainder)

    @property
    def is_exact(self) -> bool:
        """Whether every iteration has exactly `steps` batches."""
        return self.bookmark is None and not self.options.skips_errors

    @property
    def cardinality(self) -> int:
        """The number of batches of an epoch, as Keras needs it to find the ends of epochs."""
        if self.steps is not None:
            return self.steps
        # After a restart only one thing is known: the following epochs are longer than the rest of this one.
        return _MANY_STEPS if self.bookmark is not None and self.bookmark.step else tf.data.UNKNOWN_CARDINALITY

    def start_iteration(self) -> tuple[np.int64, np.int64]:
        """Start an iteration, and return its epoch and its first step."""
        self.iterations += 1
        if self.bookmark is None:
            self.skipped = {}
            return np.int64(self.iterations - 1), np.int64(0)
        self.end_epoch()
        epoch, step = self.bookmark.epoch, self.bookmark.step
        self.skipped, self.skipped_before = {}, {epoch: self.bookmark.left_out}
        return np.int64(epoch), np.int64(step)

    def end_epoch(self) -> None:
        """Move the bookmark to the next epoch if it is after the last batch."""
        mark = self.bookmark
        if mark is None or self.order is None or mark.step == 0:
            return
        if mark.step * self.batch_size + mark.left_out >= self.epoch_samples:
            mark.move_to(mark.epoch + 1, 0)

    def count_skipped(self, epoch: int, step: int) -> int:
        """The number of samples that were left out before a step, by which its position in the epoch is shifted."""
        position = start = step * self.batch_size
        position += self.skipped_before.get(epoch, 0)
        for each in sorted(self.skipped.get(epoch, ())):
            position += each < position
        return position - start

    def report_unreadable(self, epoch: int, positions: Indices) -> None:
        """Record samples that cannot be read, or raise an error for the first of them."""
        samples = self.index_order.at(epoch, positions).tolist()
        for position, sample in zip(positions.tolist(), samples, strict=True):
            problem = f"{self.source.where(sample)}: {self.source.reason(sample) or UNREADABLE_ONCE}"
            if not self.options.skips_errors:
                raise LowtideError(problem, cure=CURE)
            self.problems.append(problem)
            skipped = self.skipped.setdefault(epoch, set())
            skipped.add(position)
            if len(skipped) >= self.epoch_samples:
                raise LowtideError("not one sample can be read", given=problem, cure="see lt.feed.problems(dataset)")

    @property
    def index_order(self) -> Order:
        """The order of samples that are read by index."""
        assert self.order is not None
        return self.order

    @property
    def epoch_samples(self) -> int:
        """The number of samples of an epoch, without those of a remainder that is dropped."""
        return min(self.index_order.count, (self.steps or 0) * self.batch_size)

    def positions_of(self, epoch: int, step: int, batches: int = 1) -> Indices:
        """The positions in the epoch of one batch, or of several consecutive ones."""
        low = step * self.batch_size + self.skipped_before.get(epoch, 0)
        return np.arange(low, min(low + batches * self.batch_size, self.epoch_samples))

    def describe(self) -> str:
        """The order, the batches and the memory, one line each, and the notes."""
        sizing = self.sizing
        batches = "batches" if self.steps is None else format_count(self.steps, "batch")
        lines = [
            self.description if self.order is None else self.order.describe(),
            f"{batches} of {self.batch_size:,} an epoch, {format_bytes(sizing.batch_bytes)} each",
            f"at most {format_bytes(sizing.peak_bytes)} of {format_bytes(sizing.budget_bytes)}: "
            f"{sizing.readers} read at a time, {sizing.prefetched} ready ahead"
            + (f", {format_bytes(sizing.window_bytes)} of blocks" if sizing.window_bytes else ""),
        ]
        return "\n".join([*lines, *self.notes])

    def call_python(self, function: Callable[..., Any], inputs: Sequence[Any], types: Any) -> Any:
        """Call a Python function from the graph, and return its results as tensors."""
        return tf.numpy_function(refuse_at_exit(self.weak_callback(function)), inputs, types)

    def weak_callback(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that TensorFlow does not keep it, with its files and blocks, until the process ends.

        The feed keeps the function instead, and the dataset keeps the feed.
        """
        if self.in_graph:
            return function
        self.callbacks.append(function)
        reference = weakref.ref(function)

        def call(*args: Any) -> Any:
            found = reference()
            if found is None:
                raise LowtideError(
                    "the dataset no longer exists", cure="keep what lt.feed returned as long as datasets made from it"
                )
            return found(*args)

        return call
