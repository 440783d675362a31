"""The function of a stage: the memory of a call, and its captured tensors and constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.tf.trace.predict import predict

# Smaller constants and captured tensors are not data.
_LEAST_CONSTANT_BYTES = 1 << 20
_WITHOUT_BYTES = (tf.resource, tf.variant)
# Ops whose output is the memory of their input.
_VIEWS = {"Placeholder", "Identity", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "EnsureShape"}
# Stateful ops that do not keep TensorFlow from running a function in parallel.
_PARALLEL_OPS = {"Placeholder", "Assert"}


def call_bytes(function: Any, specs: list[tf.TensorSpec] | None) -> int | None:
    """The peak memory of one call, including inputs and outputs; None if it cannot be simulated."""
    if specs is None or any(spec.dtype in _WITHOUT_BYTES for spec in specs):
        return None
    try:
        tide = predict(tf.function(lambda *given: function(*given), autograph=False), *specs)
    except (LowtideError, ValueError, TypeError, tf.errors.OpError):
        return None
    alive = sum(size for kind, size in tide.breakdown().items() if kind not in ("slack", "constants"))
    # Captured tensors are shared by all calls.
    return max(alive - sum(size_of(tensor) for tensor in function.captured_inputs), 0)


def sampled_bytes(function: Any, given: list[Any]) -> int:
    """The sum of the texts and of the tensors of unknown shape in one call, such as a decoded image.

    The call is made, because only that shows how large they are.
    """
    wanted = [
        tensor.name for op in function.graph.get_operations() for tensor in op.outputs if _has_unknown_size(tensor)
    ]
    if not wanted or len(given) + len(function.captured_inputs) != len(function.graph.inputs):
        return 0
    definition = function.graph.as_graph_def()
    inputs = [tensor.name for tensor in function.graph.inputs]

    def measure(*given: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        captured = [graph.capture(tensor) for tensor in function.captured_inputs]
        fed = dict(zip(inputs, [*given, *captured], strict=True))
        found = tf.graph_util.import_graph_def(definition, fed, wanted, name="")
        texts = [tf.reduce_sum(tf.strings.length(each)) for each in found if each.dtype == tf.string]
        others = [tf.size(each) * each.dtype.size for each in found if each.dtype != tf.string]
        return tf.add_n([tf.cast(each, tf.int64) for each in (*texts, *others)])

    return int(tf.function(measure, autograph=False)(*given))


def _has_unknown_size(tensor: Any) -> bool:
    if tensor.op.type in _VIEWS or tensor.dtype in _WITHOUT_BYTES:
        return False
    return tensor.dtype == tf.string or not tensor.shape.is_fully_defined()


def captured_bytes(function: Any) -> int:
    """The size of the large tensors that the function captures."""
    return sum(size_of(tensor) for tensor in function.captured_inputs if size_of(tensor) >= _LEAST_CONSTANT_BYTES)


def constants_in(function: Any) -> int:
    """The size of the large constants in the graph of the function."""
    sizes = [size_of(each.outputs[0]) for each in function.graph.get_operations() if each.type == "Const"]
    return sum(size for size in sizes if size >= _LEAST_CONSTANT_BYTES)


def is_stateful(function: Any) -> bool:
    """Whether the function has state, so that TensorFlow does not run its calls in parallel."""
    return any(each._is_stateful and each.type not in _PARALLEL_OPS for each in function.graph.get_operations())


def size_of(tensor: Any) -> int:
    """The size of a tensor in bytes; 0 for texts and for unknown shapes."""
    if tensor.dtype in (*_WITHOUT_BYTES, tf.string) or not tensor.shape.is_fully_defined():
        return 0
    return int(np.prod(tensor.shape, dtype=np.int64)) * tensor.dtype.size
