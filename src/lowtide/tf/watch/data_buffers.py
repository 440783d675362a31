"""Buffers of data pipelines that fill once: shuffle buffers and caches in memory. Their growth is not a leak."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops.dataset_ops import DatasetV2

from lowtide.tf.references.gc_objects import instances_of


def fillable_bytes() -> float:
    """The capacity of the data pipelines that are alive; infinite if a size is not known in advance."""
    return sum(map(_capacity, instances_of(DatasetV2)))


def _capacity(dataset: Any) -> float:
    kind = type(dataset).__name__
    if "Shuffle" in kind:
        return _static_number(getattr(dataset, "_buffer_size", None)) * _element_bytes(dataset)
    if "Cache" in kind:
        # A cache on disk takes no memory, but reading its file name would run an op.
        return _elements(dataset) * _element_bytes(dataset)
    return 0.0


def _elements(dataset: Any) -> float:
    count = _static_number(dataset.cardinality()) if tf.executing_eagerly() else -1.0
    return count if count >= 0 else math.inf


def _static_number(tensor: Any) -> float:
    value = tf.get_static_value(tensor) if tensor is not None else None
    return math.inf if value is None else float(value)


def _element_bytes(dataset: Any) -> float:
    total = 0.0
    for spec in tf.nest.flatten(dataset.element_spec):
        shape = getattr(spec, "shape", None)
        elements = shape.num_elements() if shape is not None and shape.rank is not None else None
        if elements is None or spec.dtype.size < 1 or spec.dtype == tf.string:
            return math.inf
        total += elements * spec.dtype.size
    return total
