"""A step to measure: a function or a Keras model with a batch, values made from specs included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.progress import ProgressCallback
from lowtide.tf.trace import keras_models as models
from lowtide.tf.trace.find_keras_objects import find_keras_objects
from lowtide.tf.trace.specs import with_batch
from lowtide.tf.trace.trace import trace
from lowtide.units import format_count

# A seed that does not advance the random number generators of TensorFlow and Python.
_SEED = (3, 14)


@dataclass(frozen=True)
class MeasuredStep:
    """Something to run, and the tensors that it receives each time."""

    run: Callable[[], Any]
    label: str
    inputs: Sequence[Any] = ()
    batch_size: int | None = None
    owners: Sequence[Any] = ()
    """The Keras models, layers and optimizers that are known to belong to the step."""


def function_step(
    target: Callable[..., Any],
    arguments: tuple[Any, ...],
    batch_size: int | None,
    label: str | None,
    progress: ProgressCallback,
) -> MeasuredStep:
    """A step that calls a function as it is: traced if it is a tf.function, otherwise op by op."""
    given = arguments or tuple(getattr(target, "input_signature", None) or ())
    values = _fill_specs(given, batch_size)
    if hasattr(target, "get_concrete_function"):
        # Tracing creates the function's variables, with their initial values, before anything runs.
        trace(target, values, progress)
    return _step(
        lambda: target(*values), label or function_label(target), values, batch_size, find_keras_objects(target)
    )


@contextmanager
def model_step(
    model: keras.Model, data: tuple[Any, ...], batch_size: int | None, label: str | None
) -> Iterator[MeasuredStep]:
    """A step that `fit` would run, on the same batch each time."""
    batch = _fill_specs(_take_rows(data, batch_size), batch_size, model)
    specs = tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), list(batch))
    models.prepare(model, tuple(specs))
    # A dataset of inputs alone yields x itself, not a tuple; and it would convert a list to a tensor.
    element = keras.tree.lists_to_tuples(batch if len(batch) > 1 else batch[0])
    iterator = iter(tf.data.Dataset.from_tensors(element).repeat())
    before = model.train_function
    model.make_train_function(force=True)
    function = model.train_function
    try:
        yield _step(lambda: function(iterator), label or model.name, batch, batch_size, models.owners_of(model))
    finally:
        model.train_function = before


def function_label(target: Any) -> str:
    """The name of a function, or of the class of another callable."""
    return str(getattr(target, "__name__", type(target).__name__))


def _step(
    run: Callable[[], Any], label: str, values: tuple[Any, ...], batch_size: int | None, owners: Sequence[Any]
) -> MeasuredStep:
    inputs = [leaf for leaf in tf.nest.flatten(list(values)) if isinstance(leaf, tf.Tensor)]
    return MeasuredStep(run, label, inputs, _common_size(list(values)) if batch_size is None else batch_size, owners)


def _fill_specs(
    arguments: tuple[Any, ...], batch_size: int | None, model: keras.Model | None = None
) -> tuple[Any, ...]:
    """The arguments with a tensor in place of each spec: random numbers between 0 and 1, or zeros for integers.

    Integers that a model looks up in an embedding are random indices of the embedding.
    """
    leaves = tf.nest.flatten(list(arguments))
    positions = [position for position, leaf in enumerate(leaves) if isinstance(leaf, tf.TypeSpec)]
    for position in positions:
        if not isinstance(leaves[position], tf.TensorSpec):
            cure = "pass a value of this kind instead of its spec"
            raise LowtideError("only plain tensors can be made from specs", given=leaves[position], cure=cure)
    specs = with_batch(tuple(leaves[position] for position in positions), batch_size)
    bounds = _embedding_sizes(model) if model is not None else []
    for position, spec in zip(positions, specs, strict=True):
        leaves[position] = _value(spec, bounds[position] if position < len(bounds) else 0)
    return tuple(tf.nest.pack_sequence_as(list(arguments), leaves))


def _take_rows(data: tuple[Any, ...], batch_size: int | None) -> tuple[Any, ...]:
    """The first `batch_size` rows of a model's data, as tensors in the allocator's memory."""

    def take(value: Any) -> Any:
        # Ragged and sparse tensors are used as they are.
        if isinstance(value, tf.TypeSpec) or (not isinstance(value, tf.Tensor) and hasattr(value, "_type_spec")):
            return value
        tensor = tf.convert_to_tensor(value)
        if batch_size is not None and tensor.shape.rank:
            if tensor.shape[0] < batch_size:
                problem = f"the data has only {format_count(tensor.shape[0], 'row')}, and a batch has {batch_size}"
                raise LowtideError(problem, cure="pass more data, or a smaller batch_size")
            tensor = tensor[:batch_size]
        # TensorFlow may use the memory of a NumPy array, which is outside of the allocator.
        return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)

    return tuple(tf.nest.map_structure(take, list(data)))


def _common_size(arguments: Any) -> int | None:
    """The first size that all tensors have in common, or None."""
    shapes = [tuple(leaf.shape) for leaf in tf.nest.flatten(arguments) if isinstance(leaf, (tf.Tensor, np.ndarray))]
    sizes = {shape[0] for shape in shapes if shape}
    return sizes.pop() if len(sizes) == 1 else None


def _value(spec: tf.TensorSpec, bound: int) -> tf.Tensor:
    if bound and not spec.dtype.is_bool:
        ids = tf.random.stateless_uniform(spec.shape, _SEED, 0, bound, tf.int32)
        return ids if spec.dtype == tf.int32 else tf.cast(ids, spec.dtype)
    if spec.dtype in (tf.float16, tf.float32, tf.float64, tf.bfloat16):
        return tf.random.stateless_uniform(spec.shape, _SEED, dtype=spec.dtype)
    return tf.fill(spec.shape, "") if spec.dtype == tf.string else tf.zeros(spec.shape, spec.dtype)


def _embedding_sizes(model: keras.Model) -> list[int]:
    """For each input, the size of the embedding that reads it, or 0."""
    try:
        inputs = list(model.inputs or ())
    except (AttributeError, ValueError):
        inputs = []
    bounds = []
    for tensor in inputs:
        is_integer = "int" in tensor.dtype
        readers = [
            layer
            for layer in model.layers
            if any(tensor is each for node in layer._inbound_nodes for each in node.input_tensors)
        ]
        # Integers may pass through other layers first.
        bounds.append(_smallest_embedding(readers) or (_smallest_embedding([model]) if is_integer else 0))
    return bounds


def _smallest_embedding(layers: list[Any]) -> int:
    sizes = [
        each.input_dim
        for layer in layers
        for each in layer._flatten_layers()
        if isinstance(each, keras.layers.Embedding)
    ]
    return min(sizes, default=0)
