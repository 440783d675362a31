"""A batch to run a step with: the given data, and values in the place of specs."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.tf.trace.specs import with_batch

# Any will do. TensorFlow's and Python's own streams of random numbers are left where they are.
_SEED = (3, 14)


def filled(arguments: tuple[Any, ...], batch_size: int | None, model: keras.Model | None = None) -> tuple[Any, ...]:
    """The arguments with a tensor for each spec: numbers between 0 and 1, zeros for whole numbers.

    Whole numbers that a model looks up in an embedding are drawn from those that it has.
    """
    leaves = tf.nest.flatten(list(arguments))
    positions = [position for position, leaf in enumerate(leaves) if isinstance(leaf, tf.TypeSpec)]
    for position in positions:
        if not isinstance(leaves[position], tf.TensorSpec):
            cure = "pass a value of this kind instead of its spec"
            raise LowtideError("only plain tensors can be made from specs", given=leaves[position], cure=cure)
    specs = with_batch(tuple(leaves[position] for position in positions), batch_size)
    bounds = _bounds_of_inputs(model) if model is not None else []
    for position, spec in zip(positions, specs, strict=True):
        leaves[position] = _value(spec, bounds[position] if position < len(bounds) else 0)
    return tuple(tf.nest.pack_sequence_as(list(arguments), leaves))


def rows(data: tuple[Any, ...], batch_size: int | None) -> tuple[Any, ...]:
    """A batch of a model's data as tensors that lie in the allocator, once: the first rows, if there are more."""

    def take(value: Any) -> Any:
        # Ragged and sparse tensors are taken as they are.
        if isinstance(value, tf.TypeSpec) or (not isinstance(value, tf.Tensor) and hasattr(value, "_type_spec")):
            return value
        tensor = tf.convert_to_tensor(value)
        if batch_size is not None and tensor.shape.rank:
            if tensor.shape[0] < batch_size:
                problem = f"the data has only {tensor.shape[0]} rows, and a batch has {batch_size}"
                raise LowtideError(problem, cure="pass more data, or a smaller batch_size")
            tensor = tensor[:batch_size]
        # An array of NumPy's may be used where it lies, outside of the allocator.
        return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)

    return tuple(tf.nest.map_structure(take, list(data)))


def size_of(arguments: Any) -> int | None:
    """The common leading size of the tensors; None where they have none."""
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


def _bounds_of_inputs(model: keras.Model) -> list[int]:
    """What the numbers of each input stay below, in order: the size of the embedding that it goes to; 0 for others."""
    try:
        inputs = list(model.inputs or ())
    except (AttributeError, ValueError):
        inputs = []
    bounds = []
    for tensor in inputs:
        is_whole = "int" in tensor.dtype
        readers = [
            layer
            for layer in model.layers
            if any(tensor is each for node in layer._inbound_nodes for each in node.input_tensors)
        ]
        # Whole numbers may pass through other layers first.
        bounds.append(_smallest_embedding(readers) or (_smallest_embedding([model]) if is_whole else 0))
    return bounds


def _smallest_embedding(layers: list[Any]) -> int:
    sizes = [
        each.input_dim
        for layer in layers
        for each in layer._flatten_layers()
        if isinstance(each, keras.layers.Embedding)
    ]
    return min(sizes, default=0)
