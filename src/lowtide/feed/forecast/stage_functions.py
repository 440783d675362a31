"""The function of a stage: what a call of it takes, and what it brings along."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.tf.trace.predict import predict

# Functions have constants of their own; from this size on they are somebody's data.
_LEAST_CONSTANT_BYTES = 1 << 20
_WITHOUT_BYTES = (tf.resource, tf.variant)
# These have state as TensorFlow sees it, and a pipeline may run them in parallel all the same.
_HARMLESS = {"Placeholder", "Assert"}


def call_bytes(function: Any, specs: list[tf.TensorSpec] | None) -> int | None:
    """The most that is alive during one call, inputs and outputs among it; None if that cannot be simulated."""
    if specs is None or any(spec.dtype in _WITHOUT_BYTES for spec in specs):
        return None
    try:
        tide = predict(tf.function(lambda *given: function(*given), autograph=False), *specs)
    except (LowtideError, ValueError, TypeError, tf.errors.OpError):
        return None
    alive = sum(size for kind, size in tide.breakdown().items() if kind not in ("slack", "constants"))
    # What the function uses from outside is not there once for each call.
    return max(alive - sum(size_of(tensor) for tensor in function.captured_inputs), 0)


def captured_bytes(function: Any) -> int:
    """Tensors from outside that the function uses."""
    return sum(size_of(tensor) for tensor in function.captured_inputs if size_of(tensor) >= _LEAST_CONSTANT_BYTES)


def constants_in(function: Any) -> int:
    """Large constants in the graph of the function."""
    sizes = [size_of(each.outputs[0]) for each in function.graph.get_operations() if each.type == "Const"]
    return sum(size for size in sizes if size >= _LEAST_CONSTANT_BYTES)


def is_stateful(function: Any) -> bool:
    """Whether TensorFlow leaves the function's calls one after the other."""
    return any(each._is_stateful and each.type not in _HARMLESS for each in function.graph.get_operations())


def size_of(tensor: Any) -> int:
    """The bytes of a tensor; 0 for texts, and where its shape is not known."""
    if tensor.dtype in (*_WITHOUT_BYTES, tf.string) or not tensor.shape.is_fully_defined():
        return 0
    return int(np.prod(tensor.shape, dtype=np.int64)) * tensor.dtype.size
