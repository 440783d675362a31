"""Training data with a position: what all kinds share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from lowtide.tf.trace.specs import full_batch_size

ALL = 1 << 62
"""More batches than any pass has."""


@dataclass(frozen=True)
class Passes:
    """The passes over the data that epochs consist of, as Keras counts them.

    Without `steps_per_epoch` an epoch is a pass. With it, an epoch continues where the previous one stopped; the last
    epoch of a pass is shorter if `steps_per_epoch` does not divide the batches of a pass.
    """

    batches: int | None
    """The number of batches of a pass; None if it is unknown or infinite."""
    steps_per_epoch: int | None = None

    @property
    def steps(self) -> int | None:
        """The number of batches of an epoch; None if unknown."""
        return self.steps_per_epoch or self.batches

    def find(self, epoch: int) -> tuple[int, int]:
        """The pass of an epoch, and the batch of the pass with which the epoch begins."""
        if self.steps_per_epoch is None:
            return epoch, 0
        if self.batches is None:
            return 0, epoch * self.steps_per_epoch
        number, part = divmod(epoch, max(math.ceil(self.batches / self.steps_per_epoch), 1))
        return number, part * self.steps_per_epoch


class TrainingData(ABC):
    """Batches of training data, epoch by epoch, which can start at any batch of any epoch.

    Call `restore` first if a position was saved, then `begin_epoch` for each epoch. `save` is called between two steps.
    The global generators of Python and NumPy are no part of what is saved: set them before `iterator` is called.
    """

    note: str | None = None
    """What cannot be restored exactly, and what happens instead; one sentence that a user reads."""

    def __init__(self, element_spec: Any, passes: Passes, batch_size: int | None) -> None:
        self.element_spec = element_spec
        self.passes = passes
        self.batch_size = batch_size
        self._epoch: int | None = None
        self._pass, self._first = 0, 0
        self._iterator: tf.data.Iterator | None = None

    @property
    def steps(self) -> int | None:
        """The number of batches of an epoch; None if unknown."""
        return self.passes.steps

    def begin_epoch(self, epoch: int, step: int = 0) -> None:
        """Make the next iterator that of an epoch, from a batch on."""
        number, first = self.passes.find(epoch)
        continues = self._iterator is not None and first > 0 and step == 0 and number == self._pass
        if not continues or self._epoch != epoch - 1:
            self._iterator = None
        self._epoch, self._pass, self._first = epoch, number, first + step

    def end_epoch(self) -> None:  # noqa: B027  (most kinds of data have nothing to do)
        """The epoch has ended; Keras also calls this once before the first epoch."""

    def make_unused_iterator(self) -> None:  # noqa: B027
        """Do what Keras does at the end of an epoch: it makes an iterator, which may draw seeds, and drops it."""

    def iterator(self) -> tf.data.Iterator:
        """The iterator of the current epoch; the same object until the next `begin_epoch`."""
        if self._iterator is None:
            self._iterator = self._start(self._pass, self._first)
        return self._iterator

    @abstractmethod
    def _start(self, number: int, first: int) -> tf.data.Iterator:
        """Return a new iterator over a pass, from batch `first` of the pass on."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write what a restart needs into a folder, and return the rest as an object for JSON."""
        return {}

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Read what `save` has written and returned."""


def batch_size_of(dataset: tf.data.Dataset) -> int | None:
    """The size of full batches; None if it is unknown."""
    shape = getattr(tf.nest.flatten(dataset.element_spec)[0], "shape", None)
    if shape is not None and shape.rank and shape[0] is not None:
        return int(shape[0])
    feed = getattr(dataset, "feed", None)
    return full_batch_size(dataset) if feed is None else int(feed.batch_size)


def skip(iterator: tf.data.Iterator, batches: int) -> tf.data.Iterator:
    """Draw batches from an iterator and drop them; return the iterator."""
    for _ in range(batches):
        if next(iterator, None) is None:
            break
    return iterator
