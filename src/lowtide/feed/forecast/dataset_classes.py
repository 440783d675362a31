"""TensorFlow's Python classes of datasets: the kind of a dataset, and its inputs."""

from __future__ import annotations

import re
from typing import Any

from tensorflow.python.data.ops import dataset_ops

# Kinds whose class has another name.
_KINDS = {"TensorSlice": "TensorSlices", "Tensor": "Tensors", "TFRecordV2": "TFRecord"}
# Kinds that return the elements of their input unchanged.
PASS_ON = {
    "Shuffle", "Prefetch", "Cache", "Repeat", "Options", "Filter", "Take", "Skip", "Shard", "IgnoreErrors", "TakeWhile",
    "Unique", "AssertCardinality", "ShuffleAndRepeat", "GlobalShuffle", "Snapshot",
}  # fmt: skip


def unwrap(dataset: Any) -> Any:
    """Remove the wrappers around a dataset."""
    while True:
        wrapped = getattr(dataset, "_impl", None) or getattr(dataset, "_dataset", None)
        if not isinstance(wrapped, dataset_ops.DatasetV2):
            return dataset
        dataset = wrapped


def kind_of(dataset: Any) -> str:
    """The name of a dataset's class, without `Dataset` and its version."""
    name = re.sub(r"^_|(Dataset)?(V\d)?(Adapter)?$", "", type(dataset).__name__)
    return _KINDS.get(name, name)


def inputs_of(dataset: Any) -> list[Any]:
    """The input datasets, without wrappers."""
    return [unwrap(each) for each in dataset._inputs()]
