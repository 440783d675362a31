"""Sample elements of a stage, made without filling the buffers before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.util import structure

from lowtide.feed.forecast.dataset_classes import PASS_ON, inputs_of, kind_of, unwrap
from lowtide.feed.forecast.stage import Element

_MAPS = ("Map", "ParallelMap")
_OPENS = ("FlatMap", "Interleave", "ParallelInterleave", "GroupByWindow")
_BATCHES = ("Batch", "ParallelBatch", "PaddedBatch")


def element_of(spec: Any) -> Element | None:
    """The size of an element from its shapes; None if a shape is unknown or a tensor is a text."""
    flat = tf.nest.flatten(spec, expand_composites=True)
    total = 0
    for each in flat:
        if not isinstance(each, tf.TensorSpec) or each.dtype in (tf.string, tf.variant):
            return None
        if not each.shape.is_fully_defined():
            return None
        total += int(np.prod(each.shape.as_list(), dtype=np.int64)) * each.dtype.size
    return Element(total, len(flat))


@dataclass(frozen=True)
class ElementGroup:
    """Elements of a GroupByWindow that have the same key."""

    key: int
    size: int
    """The number of elements of a complete group."""
    element: Any


class ElementSamples:
    """A few elements of each stage, made from the sample elements of its inputs."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._known: dict[int, tuple[Any, list[Any]]] = {}

    def element(self, dataset: Any) -> Element | None:
        """The average size of an element of a stage."""
        found = self.take(dataset)
        if not found:
            return None
        sizes = [_bytes(each) for each in found]
        scale = self._scale(dataset)
        tensors = len(tf.nest.flatten(found[0], expand_composites=True))
        mean = sum(sizes) / len(sizes)
        error = float(np.std(sizes)) / len(sizes) ** 0.5
        return Element(int(mean * scale), tensors, is_sampled=True, uncertain_share=3 * error / max(mean, 1))

    def specs(self, dataset: Any) -> list[tf.TensorSpec] | None:
        """The specs of the tensors of an element; those of the first sample where shapes are unknown."""
        flat = tf.nest.flatten(dataset.element_spec, expand_composites=True)
        if all(isinstance(each, tf.TensorSpec) and each.shape.is_fully_defined() for each in flat):
            return flat
        found = self.take(dataset)
        if not found or any(not isinstance(each, tf.TensorSpec) for each in flat):
            return None
        tensors = tf.nest.flatten(found[0], expand_composites=True)
        return [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]

    def open_inner(self, dataset: Any) -> Any:
        """The pipeline that a stage opens for one of its input elements; None if it opens none."""
        kind = kind_of(dataset)
        if kind not in _OPENS:
            return None
        given = self.take(inputs_of(dataset)[0])
        if not given:
            return None
        # Call the user's function to get the dataset it returns.
        try:
            if kind == "GroupByWindow":
                group = max(self.groups(dataset), key=lambda each: each.size * _bytes(each.element))
                window = tf.data.Dataset.from_tensors(group.element).repeat(group.size)
                made = dataset._reduce_func._func(tf.constant(group.key, tf.int64), window)
            else:
                made = dataset._map_func._func(*(given[0] if isinstance(given[0], tuple) else (given[0],)))
        except Exception:
            return None
        return made if isinstance(made, dataset_ops.DatasetV2) else None

    def groups(self, dataset: Any) -> list[ElementGroup]:
        """The groups of a GroupByWindow that the sample elements belong to."""
        found: dict[int, ElementGroup] = {}
        for element in self.take(inputs_of(dataset)[0]):
            key = int(_call(dataset._key_func, inputs_of(dataset)[0].element_spec, element))
            if key not in found:
                size = int(_call(dataset._window_size_func, tf.TensorSpec((), tf.int64), tf.constant(key, tf.int64)))
                found[key] = ElementGroup(key, size, element)
        return list(found.values())

    def take(self, dataset: Any) -> list[Any]:
        """Return sample elements; an empty list if they cannot be made without filling buffers."""
        if id(dataset) not in self._known:
            # A reference to the dataset keeps its id from being reused.
            self._known[id(dataset)] = dataset, self._make(dataset)
        return self._known[id(dataset)][1]

    def _make(self, dataset: Any) -> list[Any]:
        name = kind_of(dataset)
        inputs = inputs_of(dataset)
        try:
            if name in ("Tensors", "TensorSlices"):
                return _slice_tensors(dataset, name, self._count)
            if not inputs:
                return list(dataset.take(self._count))
            if name == "Window":
                return [_make_window(dataset, each) for each in self.take(inputs[0])[:1]]
            if name in PASS_ON or name in ("Concatenate", "Rebatch"):
                return self.take(inputs[0])
            if name == "Restructured":
                flat = (tf.nest.flatten(each) for each in self.take(inputs[0]))
                return [tf.nest.pack_sequence_as(dataset.element_spec, each) for each in flat]
            if name in _MAPS:
                return [_call(dataset._map_func, inputs[0].element_spec, each) for each in self.take(inputs[0])]
            if name in _OPENS:
                opened = self.open_inner(dataset)
                return [] if opened is None else self.take(unwrap(opened))
            if name in _BATCHES:
                return self._batch(dataset, self.take(inputs[0]))
            if name == "Zip":
                rows = zip(*(self.take(each) for each in inputs), strict=False)
                return [tf.nest.pack_sequence_as(dataset._datasets, row) for row in rows]
            if name == "Unbatch":
                batches = self.take(inputs[0])
                return list(tf.data.Dataset.from_tensor_slices(batches[0]).take(self._count)) if batches else []
        except (tf.errors.OpError, ValueError, TypeError):
            return []
        return []

    def _batch(self, dataset: Any, elements: list[Any]) -> list[Any]:
        """One batch of the sample elements; it may be smaller than a real one."""
        if not elements:
            return []
        size = min(int(tf.get_static_value(dataset._batch_size)), len(elements))
        listed = tf.data.Dataset.from_generator(
            lambda: iter(elements), output_signature=dataset._inputs()[0].element_spec
        )
        if kind_of(dataset) == "PaddedBatch":
            shapes = dataset._padded_shapes
            return list(listed.padded_batch(size, shapes, dataset._padding_values).take(1))
        return list(listed.batch(size).take(1))

    def _scale(self, dataset: Any) -> float:
        """The ratio of the size of a real batch to that of a batch of the sample elements."""
        scale = 1.0
        while True:
            name = kind_of(dataset)
            if name in _BATCHES:
                found = self.take(inputs_of(dataset)[0])
                size = int(tf.get_static_value(dataset._batch_size))
                return scale * size / max(min(size, len(found)), 1)
            if name == "Rebatch":
                # The sample is a batch of the stage before.
                rows = tf.nest.flatten(self.take(dataset)[0])[0].shape[0]
                return scale * int(np.max(tf.get_static_value(dataset._batch_sizes))) / max(rows or 1, 1)
            if name not in _MAPS and name not in PASS_ON and name != "Restructured":
                return scale
            dataset = inputs_of(dataset)[0]


def _slice_tensors(dataset: Any, kind: str, count: int) -> list[Any]:
    """Elements of a dataset that was made from tensors: an iterator would copy all of the tensors."""
    spec, tensors = dataset.element_spec, dataset._tensors
    if kind == "Tensors":
        return [structure.from_tensor_list(spec, tensors)]
    if any(not isinstance(each, tf.TensorSpec) for each in tf.nest.flatten(spec)):
        return list(dataset.take(count))
    rows = range(min(count, int(tensors[0].shape[0])))
    return [structure.from_tensor_list(spec, [tensor[row] for tensor in tensors]) for row in rows]


def _make_window(dataset: Any, element: Any) -> Any:
    """A window in which one element is repeated."""
    size = int(tf.get_static_value(dataset._size))
    return tf.nest.map_structure(lambda part: tf.data.Dataset.from_tensors(part).repeat(size), element)


def _call(wrapped: Any, spec: Any, element: Any) -> Any:
    """Call the function of a stage with an element."""
    flat = wrapped.function(*structure.to_tensor_list(spec, element))
    given = list(flat) if isinstance(flat, list | tuple) else [flat]
    return structure.from_compatible_tensor_list(wrapped.output_structure, given)


def _bytes(element: Any) -> int:
    """The size of the tensors of an element, including their texts."""
    total = 0
    for tensor in tf.nest.flatten(element, expand_composites=True):
        if tensor.dtype == tf.string:
            lengths = tf.strings.length(tensor)
            # A text takes 24 bytes in its tensor, and short texts are stored within these.
            total += int(tf.size(tensor)) * 24 + int(tf.reduce_sum(tf.where(lengths > 22, lengths, 0)))
        elif tensor.dtype not in (tf.variant, tf.resource):
            total += int(np.prod(tensor.shape, dtype=np.int64)) * tensor.dtype.size
    return total
