"""Choose how to continue at a position, by the kind of data that was given to `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.data_adapters import get_data_adapter
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter, can_convert_arrays
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from lowtide.tf.train.data.array_data import ArrayData
from lowtide.tf.train.data.bookmarked_data import BookmarkedData
from lowtide.tf.train.data.dataset_data import DatasetData
from lowtide.tf.train.data.iterable_data import IterableData
from lowtide.tf.train.data.py_dataset_data import PyDatasetData
from lowtide.tf.train.data.training_data import TrainingData


def training_data(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    shuffle: bool | str = True,
    class_weight: Mapping[int, float] | None = None,
    steps_per_epoch: int | None = None,
    seed: int,
    as_keras: bool = False,
) -> TrainingData:
    """Make training data from the arguments of `keras.Model.fit`; `seed` determines the orders that Keras draws.

    With `as_keras` arrays get the order that `fit` gives them under TensorFlow's global seed.
    """
    # Keras warns if it is asked to shuffle other kinds of data.
    is_py_dataset = isinstance(x, keras.utils.PyDataset)
    has_order = x.num_batches is not None if is_py_dataset else can_convert_arrays((x, y, sample_weight))
    adapter = get_data_adapter(
        x,
        y,
        sample_weight,
        batch_size=batch_size,
        steps_per_epoch=steps_per_epoch,
        shuffle=shuffle if has_order else False,
        class_weight=class_weight,
    )
    if isinstance(adapter, ArrayDataAdapter):
        return ArrayData(adapter, shuffle, steps_per_epoch, seed, as_keras=as_keras)
    if isinstance(adapter, PyDatasetAdapter):
        return PyDatasetData(adapter, steps_per_epoch, bool(shuffle), seed)
    if isinstance(adapter, TFDatasetAdapter) and isinstance(adapter.get_tf_dataset(), tf.data.Dataset):
        feed = getattr(adapter.get_tf_dataset(), "feed", None)
        if feed is not None and feed.bookmark is not None and (feed.steps or steps_per_epoch is None):
            return BookmarkedData(adapter, steps_per_epoch)
        return DatasetData(adapter, steps_per_epoch)
    return IterableData(adapter, steps_per_epoch, seed)
