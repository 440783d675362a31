"""The stages of any tf.data pipeline, read from the dataset's Python objects without running it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.util import structure

from lowtide.errors import LowtideError
from lowtide.feed.forecast.dataset_classes import PASS_ON, inputs_of, kind_of, unwrap
from lowtide.feed.forecast.element_sampling import ElementSamples, element_of
from lowtide.feed.forecast.stage import AUTOTUNE, Element, Rewriting, Stage
from lowtide.feed.forecast.stage_functions import (
    call_bytes,
    captured_bytes,
    constants_in,
    is_stateful,
    sampled_bytes,
    size_of,
)
from lowtide.program.machine import processor_count

_NUMBERS = (
    "buffer_size", "batch_size", "num_parallel_calls", "cycle_length", "block_length", "size",
    "buffer_output_elements", "prefetch_input_elements",
)  # fmt: skip
# TensorFlow's default buffer size of readers, per open file.
_READER_BYTES = 256 << 10
# The number of sample elements that a function is called with to measure tensors of unknown shape.
_CALLED_ELEMENTS = 4
# The overhead of a record in its file.
_RECORD_EXTRA_BYTES = 16
_READERS = {"TFRecord": _RECORD_EXTRA_BYTES, "TextLine": 1, "FixedLengthRecord": 0}
# Tensors start at multiples of this.
_ALIGNMENT = 64
# Kinds whose memory is only partly known, and the note that says so.
_NOTES = {
    "GroupByWindow": "only the groups that the sampled elements belong to are counted",
    "Unique": "it keeps every distinct element, which is not counted",
    "Variant": "it was made elsewhere, and its stages are not known",
    "DataService": "the memory of its workers is not counted",
}


def outline(dataset: tf.data.Dataset, samples: ElementSamples) -> Stage:
    """The stages of a dataset as the user wrote them, before TensorFlow's rewrites."""
    if not isinstance(dataset, dataset_ops.DatasetV2):
        raise LowtideError("this is not a dataset", given=type(dataset).__name__, cure="give a tf.data.Dataset")
    return _outline(unwrap(dataset), samples)


def rewriting_of(dataset: tf.data.Dataset) -> Rewriting:
    """The rewrites that the options of a dataset allow."""
    options = dataset.options()
    chosen = options.experimental_optimization
    by_default = chosen.apply_default_optimizations is not False
    is_tuned = options.autotune.enabled is not False

    def wanted(option: bool | None) -> bool:
        return by_default if option is None else option

    return Rewriting(
        fuses=wanted(chosen.map_and_batch_fusion),
        parallelizes=wanted(chosen.map_parallelization) and is_tuned,
        prefetches=wanted(chosen.inject_prefetch) and is_tuned,
    )


def _outline(dataset: Any, samples: ElementSamples) -> Stage:
    kind = kind_of(dataset)
    inputs = tuple(_outline(each, samples) for each in inputs_of(dataset))
    function = _function(dataset)
    opened = samples.open_inner(dataset)
    inner = None if opened is None else _outline(unwrap(opened), samples)
    element = _element(dataset, kind, inputs, inner, samples)
    numbers = _numbers(dataset)
    if kind == "GroupByWindow":
        numbers["size"] = sum(group.size for group in samples.groups(dataset))
    return Stage(
        kind,
        element,
        inputs,
        inner,
        _count(dataset, kind, inputs, inner, element),
        numbers,
        call_bytes=0 if function is None or inner is not None else _call(dataset, function, inputs, element, samples),
        is_stateful=function is not None and is_stateful(function),
        constant_bytes=sum(map(size_of, _tensors(dataset))),
        captured_bytes=0 if function is None else captured_bytes(function),
        baked_bytes=0 if function is None else constants_in(function),
        reader_bytes=_reader_bytes(dataset, kind),
        note=_NOTES.get(kind) or (None if element.content_bytes or element.tensors else "its elements are unknown"),
    )


def _function(dataset: Any) -> Any:
    """The traced function of a stage that calls one for each element."""
    for name in ("_map_func", "_predicate", "_scan_func", "_key_func"):
        wrapped: Any = getattr(dataset, name, None)
        if hasattr(wrapped, "function"):
            return wrapped.function
    return None


def _numbers(dataset: Any) -> dict[str, int]:
    found = {}
    for name in _NUMBERS:
        value = getattr(dataset, f"_{name}", getattr(dataset, f"_{name}_t", None))
        known = None if value is None else tf.get_static_value(value)
        if known is not None and np.ndim(known) == 0 and not isinstance(known, bytes):
            found[name] = int(known)
    if found.get("cycle_length") == AUTOTUNE:
        found["cycle_length"] = processor_count()
    filename = getattr(dataset, "_filename", None)
    if filename is not None and tf.get_static_value(filename):
        found["is_file"] = 1
    return found


def _element(
    dataset: Any, kind: str, inputs: tuple[Stage, ...], inner: Stage | None, samples: ElementSamples
) -> Element:
    """The size of an element: from its shapes, from the batch size, or from sample elements."""
    known = element_of(dataset.element_spec)
    if known is not None:
        shared = known.content_bytes if kind == "Tensors" else _views(dataset) if kind == "TensorSlices" else 0
        if inputs and kind in PASS_ON:
            shared = inputs[0].element.shared_bytes
        return replace(known, shared_bytes=shared)
    source = inputs[0].element if inputs else None
    if source is not None and kind in ("Batch", "ParallelBatch", "DenseToSparseBatch"):
        size = _numbers(dataset).get("batch_size", 1)
        return Element(
            size * source.content_bytes, source.tensors, source.is_sampled, uncertain_share=source.uncertain_share
        )
    if inner is not None:
        return inner.element
    if source is not None and kind in PASS_ON:
        return source
    return samples.element(dataset) or Element(0, 0)


def _views(dataset: Any) -> int:
    """The bytes of a row that are views of the array: those of tensors whose rows are all aligned."""
    rows = [size_of(tensor) // max(int(tensor.shape[0]), 1) for tensor in _tensors(dataset)]
    return sum(row for row in rows if row % _ALIGNMENT == 0)


def _count(dataset: Any, kind: str, inputs: tuple[Stage, ...], inner: Stage | None, element: Element) -> int | None:
    known = int(dataset.cardinality())
    if known >= 0:
        return known
    if known == tf.data.INFINITE_CARDINALITY:
        return None
    if kind in _READERS:
        return _records(dataset, kind, element)
    first = inputs[0].count if inputs else None
    if first is None:
        return None
    if inner is not None:
        return None if inner.count is None or kind == "GroupByWindow" else first * inner.count
    numbers = _numbers(dataset)
    if "batch_size" in numbers:
        return -(-first // numbers["batch_size"])
    # The other kinds change the number of elements in a way that is unknown before they run.
    return first if kind in ("Map", "ParallelMap", "Prefetch", "Shuffle", "Cache", "Filter", "IgnoreErrors", "Options",
                             "Take", "TakeWhile", "Scan") else None  # fmt: skip


def _records(dataset: Any, kind: str, element: Element) -> int | None:
    """The approximate number of records, from the sizes of the files."""
    paths = tf.get_static_value(dataset._filenames)
    if paths is None or not element.content_bytes:
        return None
    try:
        size = sum(os.path.getsize(os.fsdecode(path)) for path in np.ravel(paths))
    except OSError:
        return None
    return max(size // (element.content_bytes + _READERS[kind]), 1)


def _tensors(dataset: Any) -> list[Any]:
    """The tensors that a dataset was made from."""
    made_from = getattr(dataset, "_tensors", None)
    return [] if made_from is None else tf.nest.flatten(made_from, expand_composites=True)


def _reader_bytes(dataset: Any, kind: str) -> int:
    if kind not in _READERS:
        return 0
    size = tf.get_static_value(getattr(dataset, "_buffer_size", None)) if hasattr(dataset, "_buffer_size") else None
    return int(size) if size is not None and size > 0 else _READER_BYTES


def _call(dataset: Any, function: Any, inputs: tuple[Stage, ...], element: Element, samples: ElementSamples) -> int:
    """The most memory that one call of the function of a stage takes."""
    source = inputs_of(dataset)[0]
    given = inputs[0].element.content_bytes
    # Tracing a graph with large constants would copy them once more.
    simulated = None if constants_in(function) else call_bytes(function, samples.specs(source))
    # A sampled element is among the tensors of unknown shape.
    known = given if element.is_sampled else given + element.content_bytes
    sampled = _sampled_call(dataset, function, samples)
    return max(simulated or 0, known + sampled, given + element.content_bytes)


def _sampled_call(dataset: Any, function: Any, samples: ElementSamples) -> int:
    """The most memory of tensors of unknown shape that a call took with one of the sample elements."""
    source = inputs_of(dataset)[0]
    try:
        flat = [structure.to_tensor_list(source.element_spec, each) for each in samples.take(source)[:_CALLED_ELEMENTS]]
        return max((sampled_bytes(function, each) for each in flat), default=0)
    # Such as a function of the user's, or a file that is missing.
    except (tf.errors.OpError, ValueError, TypeError):
        return 0
