"""Datasets as TensorFlow's Python classes have them: what kind each is, and what it takes from."""

from __future__ import annotations

import re
from typing import Any

from tensorflow.python.data.ops import dataset_ops

# What TensorFlow's classes call otherwise.
_KINDS = {"TensorSlice": "TensorSlices", "Tensor": "Tensors", "TFRecordV2": "TFRecord"}
# These give the elements that they get.
PASS_ON = {
    "Shuffle", "Prefetch", "Cache", "Repeat", "Options", "Filter", "Take", "Skip", "Shard", "IgnoreErrors", "TakeWhile",
    "Unique", "AssertCardinality", "ShuffleAndRepeat", "GlobalShuffle", "Snapshot",
}  # fmt: skip


def unwrap(dataset: Any) -> Any:
    """The dataset behind those that only pass one on."""
    while True:
        behind = getattr(dataset, "_impl", None) or getattr(dataset, "_dataset", None)
        if not isinstance(behind, dataset_ops.DatasetV2):
            return dataset
        dataset = behind


def kind_of(dataset: Any) -> str:
    """What TensorFlow calls a stage, without Dataset and version."""
    name = re.sub(r"^_|(Dataset)?(V\d)?(Adapter)?$", "", type(dataset).__name__)
    return _KINDS.get(name, name)


def inputs_of(dataset: Any) -> list[Any]:
    """The datasets that one takes from."""
    return [unwrap(each) for each in dataset._inputs()]
