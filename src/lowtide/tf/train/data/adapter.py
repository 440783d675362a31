"""What Keras's `fit` takes as `x`, so that it trains on data with a position."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from lowtide.errors import LowtideError
from lowtide.tf.train.data.training_data import TrainingData


class ResumableAdapter(DataAdapter):
    """Feeds `fit` from training data: `fit(x=ResumableAdapter(data))`, without `steps_per_epoch`.

    Each epoch of Keras is the next epoch of the data. Set `position` to start elsewhere: the next epoch of Keras is
    then that epoch, from that step on. `strategy` is the one that the model was made with, None without one: Keras then
    takes a batch before the first epoch to build the model, which is none of the data.
    """

    def __init__(
        self, data: TrainingData, epoch: int = 0, step: int = 0, strategy: tf.distribute.Strategy | None = None
    ) -> None:
        if strategy is not None and strategy.num_replicas_in_sync > 1:
            raise LowtideError(
                "the position in the data of several replicas cannot be restored",
                given=f"{type(strategy).__name__} with {strategy.num_replicas_in_sync} replicas",
                cure="train on one device",
            )
        self.data = data
        self.position = (epoch, step)
        self._is_building = strategy is not None
        self._is_within_epoch = False
        self._has_iterator = False

    def get_tf_dataset(self) -> Any:
        return _CurrentEpoch(self)

    def iterator(self) -> tf.data.Iterator:
        """The iterator of the current epoch."""
        if self._is_building:
            return iter(make_example(self.data.element_spec))
        if self._has_iterator:
            self.data.make_unused_iterator()
        self._has_iterator = True
        return self.data.iterator()

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
        if not self._is_building:
            self.data.begin_epoch(*self.position)
            self._is_within_epoch = True
            self._has_iterator = False

    def on_epoch_end(self) -> None:
        # Keras also calls this once before the first epoch, after it has built the model.
        self._is_building = False
        self.data.end_epoch()
        if self._is_within_epoch:
            self._is_within_epoch = False
            self.position = (self.position[0] + 1, 0)


class _CurrentEpoch(tf.distribute.DistributedDataset):
    """What Keras iterates over at the beginning of an epoch, and once more at its end.

    Keras takes a distributed dataset as it is, with or without a strategy.
    """

    def __init__(self, adapter: ResumableAdapter) -> None:
        self._adapter = adapter

    @property
    def element_spec(self) -> Any:
        return self._adapter.data.element_spec

    def __iter__(self) -> Any:
        return self._adapter.iterator()


def make_example(element_spec: Any) -> tf.data.Dataset:
    """A dataset of one batch of zeros."""

    def make(spec: Any) -> Any:
        zeros = tf.zeros([1 if size is None else size for size in spec.shape], spec.dtype)
        if isinstance(spec, tf.SparseTensorSpec):
            return tf.sparse.from_dense(zeros)
        if isinstance(spec, tf.RaggedTensorSpec):
            return tf.RaggedTensor.from_tensor(
                zeros, ragged_rank=spec.ragged_rank, row_splits_dtype=spec.row_splits_dtype
            )
        return zeros

    return tf.data.Dataset.from_tensors(tf.nest.map_structure(make, element_spec))
