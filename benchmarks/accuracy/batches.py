"""The specs of the tensors in a batch of a program, and random batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from benchmarks.accuracy.architectures.attention import VOCABULARY
from benchmarks.accuracy.architectures.compiling import CLASSES


def input_specs(model: Any, batch_size: int) -> Any:
    """Return the inputs of a functional Keras model: one spec, or a tuple of them."""
    specs = tuple(tf.TensorSpec((batch_size, *tensor.shape[1:]), tensor.dtype) for tensor in model.inputs)
    return specs if len(specs) > 1 else specs[0]


def label_specs(model: Any, batch_size: int) -> Any:
    """Return the labels of a model: class numbers for sparse losses, else of the shape of the output."""
    if model.loss is None:
        return None
    losses = model.loss if isinstance(model.loss, list) else [model.loss] * len(model.outputs)
    specs = tuple(
        _label_spec(loss, tensor.shape[1:], batch_size) for loss, tensor in zip(losses, model.outputs, strict=True)
    )
    return specs if len(specs) > 1 else specs[0]


def _label_spec(loss: Any, shape: tuple[int, ...], batch_size: int) -> tf.TensorSpec:
    name = loss if isinstance(loss, str) else loss.name
    if name.startswith("sparse"):
        return tf.TensorSpec((batch_size, *shape[:-1]), tf.int32, name="labels")
    return tf.TensorSpec((batch_size, *shape), tf.float32, name="labels")


def data_specs(model: Any, batch_size: int) -> tuple[Any, ...]:
    """Return what `fit` passes to `train_step`: `(x, y)`, or `(x,)` for a model without a loss."""
    labels = label_specs(model, batch_size)
    inputs = input_specs(model, batch_size)
    return (inputs,) if labels is None else (inputs, labels)


def random_batch(specs: Any) -> Any:
    """Return tensors computed by ops, so that they are in TensorFlow's allocator, as a real batch would be."""
    return tf.nest.map_structure(_random_tensor, specs)


def _random_tensor(spec: tf.TensorSpec) -> tf.Tensor:
    if not spec.dtype.is_integer:
        return tf.random.uniform(spec.shape, dtype=spec.dtype)
    is_label = spec.name is not None and spec.name.startswith("labels")
    return tf.random.uniform(spec.shape, maxval=CLASSES if is_label else VOCABULARY, dtype=spec.dtype)


def count_bytes(tensors: Any) -> int:
    """Return the bytes of all tensors or specs in a structure."""
    return sum(tensor.dtype.size * tensor.shape.num_elements() for tensor in tf.nest.flatten(tensors))
