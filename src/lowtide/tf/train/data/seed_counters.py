"""How many seeds the stages of a tf.data pipeline have drawn."""

from __future__ import annotations

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.tf.train.data.drawn_seeds import without_own_seeds
from lowtide.tf.train.data.iterator_state import read_state, set_state
from lowtide.tf.train.data.stages import Stages


class SeedCounters:
    """The counters of seeds behind a dataset, as far as they can be read and set.

    A shuffle draws a seed for each iterator from a generator that all its iterators share. The state of an iterator
    restores that generator only if the iterator has not reached the end of the shuffle's input. Therefore each shuffle
    gets one more iterator from which nothing is drawn: its state always has the number of seeds that were drawn. Its
    own seeds are not counted, so the epochs have the orders that they have without it. A dataset of lt.feed counts its
    iterations.
    """

    def __init__(self, stages: Stages) -> None:
        self._iterators: list[tf.data.Iterator] = []
        self._feeds = stages.feeds
        states = []
        for each in stages.seeded if stages.can_count_seeds else []:
            self._iterators.append(iter(each))
            states.append(without_own_seeds(read_state(self._iterators[-1])))
            set_state(self._iterators[-1], states[-1])
        # An iterator draws seeds of the stages before it as well, perhaps of one stage several times.
        for iterator, state in zip(reversed(self._iterators), reversed(states), strict=True):
            set_state(iterator, state)
        self.has_all = len(self._iterators) == len(stages.seeded)
        """Whether no stage is left out because it is too large."""

    def read(self) -> list[bytes]:
        """Return the current state of all counters."""
        return [*map(read_state, self._iterators), *(str(feed.iterations).encode() for feed in self._feeds)]

    def set(self, states: list[bytes]) -> None:
        """Set all counters to what `read` has returned."""
        count = len(self._iterators)
        try:
            for iterator, state in zip(self._iterators, states[:count], strict=True):
                set_state(iterator, state)
            for feed, state in zip(self._feeds, states[count:], strict=True):
                feed.iterations = int(state)
        except (ValueError, tf.errors.OpError) as error:
            raise LowtideError(
                "the dataset is not the one of the checkpoint", cure="restore its stages, or start another run"
            ) from error
