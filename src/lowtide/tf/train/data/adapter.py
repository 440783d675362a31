"""What Keras's `fit` takes as `x`, so that it trains on data with a position."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from lowtide.tf.train.data.training_data import TrainingData


class ResumableAdapter(DataAdapter):
    """Feeds `fit` from training data: `fit(x=ResumableAdapter(data))`, without `steps_per_epoch`.

    Each epoch of Keras is the next epoch of the data. Set `position` to start elsewhere: the next epoch of Keras is
    then that epoch, from that step on.
    """

    def __init__(self, data: TrainingData, epoch: int = 0, step: int = 0) -> None:
        self.data = data
        self.position = (epoch, step)
        self._is_within_epoch = False

    def get_tf_dataset(self) -> tf.data.Dataset:
        return _CurrentEpoch(self.data)

    @property
    def num_batches(self) -> int | None:
        return self.data.steps

    @property
    def batch_size(self) -> int | None:
        return self.data.batch_size

    @property
    def has_partial_batch(self) -> bool | None:
        return None

    @property
    def partial_batch_size(self) -> int | None:
        return None

    def on_epoch_begin(self) -> None:
        self.data.begin_epoch(*self.position)
        self._is_within_epoch = True

    def on_epoch_end(self) -> None:
        # Keras also calls this once before the first epoch.
        self.data.end_epoch()
        if self._is_within_epoch:
            self._is_within_epoch = False
            self.position = (self.position[0] + 1, 0)


class _CurrentEpoch(tf.data.Dataset):
    """A dataset whose iterator is that of the current epoch.

    Keras also iterates over it at the end of an epoch, so that it must not start an epoch.
    """

    def __init__(self, data: TrainingData) -> None:
        self._data = data
        super().__init__(_refuse_other_iterators()._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return []

    @property
    def element_spec(self) -> Any:
        return self._data.element_spec

    def __iter__(self) -> Any:
        return self._data.iterator()


def _refuse_other_iterators() -> tf.data.Dataset:
    """A dataset that fails: a distribution strategy makes its own iterators, which have no position."""

    def fail(number: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.Assert(False, ["a distribution strategy has no position in data"])]):
            return tf.identity(number)

    return tf.data.Dataset.from_tensors(0).map(fail)
