"""The specs of a step's inputs, with the batch size filled in."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError

Specs = tuple[Any, ...]
Dataset = tf.data.Dataset

HOW_TO_GIVE_SPECS = {
    "cure": "pass specs with a size for every dimension but the first: predict(model, x_spec, y_spec, batch_size=...)",
    "command_line_cure": "name a function that returns (model, x_spec, y_spec), or (step, *specs), "
    "with a size for every dimension but the first",
}
_HOW_TO_GIVE_BATCH = {"cure": "pass batch_size=", "command_line_cure": "add --batch-size"}


def as_specs(given: Specs, *, is_model: bool = False) -> Specs:
    """Return specs for the given specs, tensors, arrays and datasets.

    A dataset stands for the elements it yields. For a Keras model, arrays of float64 become Keras's default float type,
    as `fit` converts them. Values that are neither, such as Python numbers, are returned as they are.
    """
    if len(given) == 1 and isinstance(given[0], tf.data.Dataset):
        elements = _elements_of(given[0])
        return elements if isinstance(elements, tuple) else (elements,)

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, tf.Variable | tf.TypeSpec):
            return leaf
        if isinstance(leaf, tf.Tensor | keras.KerasTensor):
            return tf.TensorSpec(leaf.shape, leaf.dtype)
        if isinstance(leaf, tf.RaggedTensor | tf.SparseTensor):
            return tf.type_spec_from_value(leaf)
        if isinstance(leaf, int | float | str | bytes) and not isinstance(leaf, np.generic) and is_model:
            raise LowtideError(
                "a model's inputs are arrays, tensors, specs or one dataset",
                given=repr(leaf),
                cure="use np.asarray(...)",
            )
        if not isinstance(leaf, np.generic) and not hasattr(leaf, "__array__"):
            return leaf
        array = np.asarray(leaf)
        is_cast = is_model and array.dtype == np.float64
        return tf.TensorSpec(array.shape, tf.as_dtype(keras.config.floatx() if is_cast else array.dtype))

    return tuple(tf.nest.map_structure(convert, list(given)))


def _elements_of(dataset: tf.data.Dataset) -> Any:
    """Return the specs of a dataset's elements, with the size of full batches if the dataset makes them."""
    batch_size = _batch_size_of(dataset)

    def fill(spec: Any) -> Any:
        if isinstance(spec, tf.TensorSpec) and spec.shape.rank and spec.shape[0] is None:
            return tf.TensorSpec((batch_size, *spec.shape[1:]), spec.dtype)
        return spec

    return tf.nest.map_structure(fill, dataset.element_spec)


def _batch_size_of(dataset: tf.data.Dataset) -> int | None:
    """Return the batch size of the last stage that makes batches, if the stages after it have one input each."""
    stage: Any = dataset
    while stage is not None:
        size = tf.get_static_value(getattr(stage, "_batch_size", None))
        if size is not None:
            return int(size)
        inputs = stage._inputs()
        stage = inputs[0] if len(inputs) == 1 else None
    return None


def with_batch(specs: Specs, batch_size: int | None) -> Specs:
    """Return the specs with `batch_size` as the leading dimension of each.

    Known leading dimensions are replaced only if all specs share one size.
    """
    rows = _leading_sizes(specs)

    def fill(spec: Any) -> Any:
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
            return spec
        leading = spec.shape[0]
        replaced = batch_size is not None and (leading is None or (None not in rows and len(rows) == 1))
        shape = (batch_size if replaced else leading, *spec.shape[1:])
        if None in shape:
            if None not in shape[1:]:
                raise LowtideError("the batch size is not known", given=tuple(spec.shape), **_HOW_TO_GIVE_BATCH)
            raise LowtideError("an input has an unknown dimension", given=tuple(spec.shape), **HOW_TO_GIVE_SPECS)
        return tf.TensorSpec(shape, spec.dtype, name=spec.name)

    return tuple(tf.nest.map_structure(fill, list(specs)))


def common_rows(specs: Specs) -> int | None:
    """Return the leading size that all specs share; None if there is none."""
    rows = _leading_sizes(specs)
    return rows.pop() if len(rows) == 1 else None


def without_batch(specs: Specs) -> list[Any]:
    """Return what describes the specs apart from the batch size."""
    return [(None if spec.shape.rank else (), tuple(spec.shape)[1:], spec.dtype.name) for spec in _leaves(specs)]


def _leading_sizes(specs: Specs) -> set[int | None]:
    return {spec.shape[0] for spec in _leaves(specs) if spec.shape.rank}


def _leaves(specs: Specs) -> list[Any]:
    return [spec for spec in tf.nest.flatten(list(specs)) if isinstance(spec, tf.TensorSpec)]
