"""The specs of a step's inputs, with the batch size filled in."""

from __future__ import annotations

from collections.abc import Iterator
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

    A dataset stands for the elements it yields, a `PyDataset` for its first batch. For a Keras model, arrays of float64
    become Keras's default float type, as `fit` converts them, and targets of None are left out. For a function, values
    that are neither, such as Python numbers, are returned as they are.
    """
    given = first_batch(given, is_model=is_model)
    if len(given) == 1 and isinstance(given[0], tf.data.Dataset):
        elements = _elements_of(given[0])
        given = elements if isinstance(elements, tuple) else (elements,)
    return tuple(tf.nest.map_structure(lambda leaf: _as_spec(leaf, is_model), list(given)))


def first_batch(given: Specs, *, is_model: bool) -> Specs:
    """Return the first batch of a `PyDataset` that is the only argument, and a model's arguments up to the last one."""
    if len(given) == 1 and isinstance(given[0], keras.utils.PyDataset):
        batch = given[0][0]
        given = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    while is_model and len(given) > 1 and given[-1] is None:
        given = given[:-1]
    return given


def _as_spec(leaf: Any, is_model: bool) -> Any:
    if isinstance(leaf, tf.RaggedTensor | tf.SparseTensor | tf.RaggedTensorSpec | tf.SparseTensorSpec):
        raise LowtideError(
            "the memory of a ragged or sparse tensor depends on its values",
            given=type(leaf).__name__,
            cure="pass the spec of a dense tensor as large as the largest batch, or measure the step with lt.measure",
            command_line_cure="give the spec of a dense tensor as large as the largest batch, or run the script "
            "with lowtide run",
        )
    if isinstance(leaf, tf.Variable | tf.TypeSpec):
        return leaf
    if isinstance(leaf, tf.Tensor | keras.KerasTensor):
        return tf.TensorSpec(leaf.shape, leaf.dtype)
    if not isinstance(leaf, np.generic) and not hasattr(leaf, "__array__"):
        if is_model or isinstance(leaf, tf.data.Dataset):
            raise _not_an_input(leaf)
        return leaf
    array = np.asarray(leaf)
    if array.dtype == object and not all(isinstance(each, str | bytes) for each in array.flat):
        cure = 'convert it: np.asarray(..., dtype="float32")'
        raise LowtideError("TensorFlow has no type for an array of Python objects", given=array.shape, cure=cure)
    is_cast = is_model and array.dtype == np.float64
    return tf.TensorSpec(array.shape, tf.as_dtype(keras.config.floatx() if is_cast else array.dtype))


def _not_an_input(value: Any) -> LowtideError:
    cure, given = "pass one of these in its place", type(value).__name__
    if isinstance(value, Iterator):
        cure = "pass what it yields: predict(model, *next(generator))"
    elif isinstance(value, tf.data.Dataset):
        cure = "pass the dataset alone"
    elif isinstance(value, int | float | str | bytes):
        cure, given = "use np.asarray(...)", repr(value)
    return LowtideError("a model's inputs are arrays, tensors, specs or one dataset", given=given, cure=cure)


def _elements_of(dataset: tf.data.Dataset) -> Any:
    """Return the specs of a dataset's elements, with the size of full batches if the dataset makes them."""
    batch_size = full_batch_size(dataset)

    def fill(spec: Any) -> Any:
        if isinstance(spec, tf.TensorSpec) and spec.shape.rank and spec.shape[0] is None:
            return tf.TensorSpec((batch_size, *spec.shape[1:]), spec.dtype)
        return spec

    return tf.nest.map_structure(fill, dataset.element_spec)


def full_batch_size(stage: Any) -> int | None:
    """Return the batch size of the last stages that make batches; None if there is none, or several sizes."""
    size = tf.get_static_value(getattr(stage, "_batch_size", None))
    if size is not None:
        return int(size)
    if any(word in type(stage).__name__ for word in _CHANGES_ELEMENTS):
        return None
    sizes = {full_batch_size(source) for source in stage._inputs()} - {None}
    return sizes.pop() if len(sizes) == 1 else None


# Words in the names of stages that yield more or fewer elements per element, of other sizes.
_CHANGES_ELEMENTS = ("Unbatch", "Rebatch", "FlatMap", "Interleave", "Window", "GroupBy")


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


def without_batch(specs: Specs) -> Any:
    """Return what describes the specs apart from the batch size."""
    rows = _leading_sizes(specs)

    def describe(spec: Any) -> Any:
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
            return repr(spec)
        shape = tuple(spec.shape)
        return repr(("batch" if shape[0] is None or len(rows) == 1 else shape[0], shape[1:], spec.dtype.name))

    return tf.nest.map_structure(describe, list(specs))


def takes_batch(specs: Specs) -> bool:
    """Whether `with_batch` puts a batch size into the specs."""
    rows = _leading_sizes(specs)
    return None in rows or len(rows) == 1


def _leading_sizes(specs: Specs) -> set[int | None]:
    return {spec.shape[0] for spec in tensor_specs(specs) if spec.shape.rank}


def tensor_specs(specs: Specs) -> list[Any]:
    """Return the tensor specs in the specs, without other values."""
    return [spec for spec in tf.nest.flatten(list(specs)) if isinstance(spec, tf.TensorSpec)]
