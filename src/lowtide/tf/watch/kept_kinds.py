"""What kept tensors are, judged by their shapes and the name of their holder, and what to keep instead."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.data.ops.dataset_ops import DatasetV2

from lowtide.tf.references.gc_objects import instances_of
from lowtide.tf.references.holders import KeptTensor, live_variables


class KeptKind(StrEnum):
    """What a kept tensor is. `WEIGHTS` have the shapes of variables: gradients, or copies of the variables."""

    SCALAR = "scalar"
    GRADIENT = "gradient"
    WEIGHTS = "weights"
    BATCH = "batch"
    OUTPUT = "output"


_FIXES = {
    KeptKind.SCALAR: "keep numbers and not scalar tensors: float(loss), or a keras.metrics.Mean",
    KeptKind.GRADIENT: (
        "do not keep gradients: use them in their step, or keep their norm, float(tf.linalg.global_norm(gradients))"
    ),
    KeptKind.WEIGHTS: (
        "tensors with the shapes of variables are gradients or copies of weights: of gradients keep"
        " float(tf.linalg.global_norm(gradients)), and write weights to a file with model.save_weights"
    ),
    KeptKind.BATCH: "do not keep batches: read them from the dataset again, or keep the indices of their samples",
    KeptKind.OUTPUT: (
        "of predictions and other outputs keep only what is needed, as NumPy: a metric, tf.argmax(outputs, -1).numpy(),"
        " and write the rest to a file"
    ),
}

# Gradients and copies come for all variables of a model, or most of them. A single shape proves nothing: predictions of
# a batch of 256 rows have the shape of the last kernel if the layer before it has 256 units.
_LEAST_SHARE_OF_WEIGHTS = 0.5

_VARIABLE_NAME = re.compile(r"(?<=`)[^`]+")
_GRADIENT_NAME = re.compile(r"grad", re.IGNORECASE)
_BATCH_NAME = re.compile(r"batch|inputs|images", re.IGNORECASE)


def advise(kept: Iterable[KeptTensor]) -> str:
    """Return what to keep instead of these tensors: advice for each kind among them, the largest first."""
    group = list(kept)
    weights = _matching_weights({each.shape for each in group})
    specs = _dataset_specs()
    is_batch = any(_are_elements(group, each) for each in specs)
    sizes: Counter[KeptKind] = Counter()
    for each in group:
        sizes[_kind_of(each, weights, is_batch)] += max(each.bytes, 1)
    return "; ".join(_FIXES[kind] for kind, _ in sizes.most_common())


def _matching_weights(shapes: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """The shapes of the variables of those models, and of the variables outside of models, that `shapes` mostly has."""
    models = [each.variables for each in instances_of(keras.Model) if each.built]
    in_models = {id(each.value) for variables in models for each in variables}
    others = [each for each in live_variables() if id(each) not in in_models]
    sets = [{tuple(each.shape) for each in variables if len(each.shape)} for variables in (*models, others)]
    matching = (each for each in sets if len(each & shapes) >= len(each) * _LEAST_SHARE_OF_WEIGHTS)
    return set().union(*matching)


def _kind_of(kept: KeptTensor, weights: set[tuple[int, ...]], is_batch: bool) -> KeptKind:
    name = _VARIABLE_NAME.search(kept.holder)
    path = name.group() if name else ""
    if _GRADIENT_NAME.search(path):
        return KeptKind.GRADIENT
    if not kept.shape:
        return KeptKind.SCALAR
    if is_batch or _BATCH_NAME.search(path):
        return KeptKind.BATCH
    return KeptKind.WEIGHTS if kept.shape in weights else KeptKind.OUTPUT


def _dataset_specs() -> list[list[Any]]:
    """The specs of the elements of all datasets that are alive."""
    return [tf.nest.flatten(each.element_spec) for each in instances_of(DatasetV2)]


def _are_elements(group: list[KeptTensor], specs: list[Any]) -> bool:
    """Whether all of these tensors match components of a dataset's elements, the first component among them.

    Predictions may have the shape of the labels, but only the inputs have that of the first component.
    """
    specs = [spec for spec in specs if isinstance(spec, tf.TensorSpec) and spec.shape.rank]
    examples = {(each.dtype, each.shape) for each in group}
    fits = [{example for example in examples if _fits(spec, *example)} for spec in specs]
    return bool(fits) and bool(fits[0]) and set().union(*fits) == examples


def _fits(spec: Any, dtype: str, shape: tuple[int, ...]) -> bool:
    return spec.dtype.name == dtype and spec.shape.is_compatible_with(shape)
