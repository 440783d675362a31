"""Arrays: the order of a pass depends on the seed and the number of the pass alone, or is that of Keras."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras.src.trainers.data_adapters import array_slicing
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from tensorflow.python.data.ops import zip_op

from lowtide.tf.train.data.stages import Stages
from lowtide.tf.train.data.training_data import Passes, TrainingData

_WAITING_BATCHES = 2


class ArrayData(TrainingData):
    """Arrays, tensors, data frames and sparse matrices, batched and shuffled as Keras does."""

    def __init__(
        self, adapter: ArrayDataAdapter, shuffle: bool | str, steps_per_epoch: int | None, seed: int, *, as_keras: bool
    ) -> None:
        self._count = adapter._num_samples
        self._shuffle, self._seed = shuffle, seed
        self._keras_order = find_keras_order(adapter) if shuffle and as_keras else None
        # Variables, so that one pipeline serves all epochs: each iterator reads them when its first batch is requested.
        with tf.device("CPU:0"):
            self._order = tf.Variable(np.zeros(self._count, np.int64), trainable=False, name="order_of_samples")
            self._first_batch = tf.Variable(0, dtype=tf.int64, trainable=False, name="first_batch")
        self._dataset = _make_dataset(adapter, self._order, self._first_batch)
        super().__init__(self._dataset.element_spec, Passes(adapter.num_batches, steps_per_epoch), adapter.batch_size)

    def _start(self, number: int, first: int) -> tf.data.Iterator:
        self._order.assign(self._find_order(number))
        self._first_batch.assign(first)
        return iter(self._dataset)

    def _find_order(self, number: int) -> npt.NDArray[np.int64]:
        """The samples of a pass in their order."""
        if self._keras_order is not None:
            return self._keras_order
        order = np.arange(self._count, dtype=np.int64)
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, number])))
        if self._shuffle == "batch":
            size = self.batch_size
            assert size is not None
            full = self._count // size * size
            order[:full] = random.permuted(order[:full].reshape(-1, size), axis=1).ravel()
            random.shuffle(order[full:])
        elif self._shuffle:
            random.shuffle(order)
        return order


def find_keras_order(adapter: ArrayDataAdapter) -> npt.NDArray[np.int64] | None:
    """The order of the samples in `fit`, which is the same in each epoch if TensorFlow's global seed is set.

    None if Keras builds its pipeline in another way than known here.
    """
    # The order depends on the number of samples alone.
    placeholder = np.zeros(adapter._num_samples, np.bool_)
    shuffled = ArrayDataAdapter(placeholder, batch_size=adapter.batch_size, shuffle=adapter._shuffle)
    inputs = [each._inputs()[0] for each in Stages(shuffled.get_tf_dataset()).of(zip_op._ZipDataset)]
    if [each.element_spec.dtype for each in inputs] != [tf.int64]:
        return None
    return np.concatenate(list(inputs[0].as_numpy_iterator()))


def _make_dataset(adapter: ArrayDataAdapter, order: tf.Variable, first_batch: tf.Variable) -> tf.data.Dataset:
    """The pipeline of `ArrayDataAdapter.get_tf_dataset`, with an order that is given."""
    size = adapter.batch_size
    batches = adapter.num_batches
    # Keras's static shape, so that the training function is the same.
    static_size = None if adapter.has_partial_batch else size

    def find_samples(batch: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(order[batch * size : (batch + 1) * size], (static_size,))

    def grab_batch(samples: tf.Tensor, data: Any) -> Any:
        def grab_one(x: Any) -> Any:
            if isinstance(x, array_slicing.TensorflowSparseWrapper):
                return array_slicing.slice_tensorflow_sparse_wrapper(x, samples)
            if isinstance(x, (list, tuple, dict)):
                return None
            return tf.gather(x, samples, axis=0) if tf.is_tensor(x) else x

        return keras.tree.traverse(grab_one, data)

    inputs = keras.tree.lists_to_tuples(
        array_slicing.convert_to_sliceable(adapter._inputs, target_backend="tensorflow")
    )
    samples = (
        tf.data.Dataset.from_tensors(0)
        .flat_map(lambda _: tf.data.Dataset.range(first_batch, batches))
        .map(find_samples)
    )
    dataset = tf.data.Dataset.zip((samples, tf.data.Dataset.from_tensors(inputs).repeat())).map(grab_batch)
    options = tf.data.Options()
    # As in Keras: they would serialize the pipeline with the arrays.
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    # A fixed number, where Keras has AUTOTUNE: the step is planned around the batches that wait when the first one has
    # arrived, and AUTOTUNE adds up to two of them later.
    return dataset.with_options(options).prefetch(_WAITING_BATCHES)
