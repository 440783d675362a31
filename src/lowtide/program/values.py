"""Values of small tensors: shapes, axes, loop counters.

TensorFlow's shape inference computes most of them. The others are computed here, and so are the counters that determine
the number of iterations of a loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowtide.program.dtypes import DTYPES
from lowtide.program.graph import Graph, follow_handle

Value = np.ndarray[Any, np.dtype[Any]]
Attributes = dict[str, Any]

# Elements of the largest tensor whose value is tracked.
LARGEST_VALUE = 4096


def evaluate(op: str, attributes: Attributes, inputs: Sequence[Value]) -> list[Value] | None:
    """Return the outputs of a node whose inputs are known; None for an op that this evaluator does not have."""
    compute = _OPS.get(op)
    if compute is None:
        return None
    try:
        if op in _COUNTS and _COUNTS[op](*inputs) > LARGEST_VALUE:
            return None
        result = compute(attributes, *inputs)
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError):
        return None
    outputs = [np.asarray(value) for value in (result if isinstance(result, list) else [result])]
    return outputs if all(value.size <= LARGEST_VALUE for value in outputs) else None


def propagate_values(graph: Graph, order: Sequence[int]) -> dict[int, Value]:
    """Return all values that follow from constants and known shapes, by tensor id."""
    values = dict(graph.values)
    for node in order:
        op = graph.ops[node]
        first = graph.first_output[node]
        if op in _OF_SHAPES:
            for port, value in enumerate(_OF_SHAPES[op](graph, node) or ()):
                values[first + port] = value
        elif op in _OPS and first not in values:
            inputs = [values.get(tensor) for tensor in graph.inputs_of(node)]
            if inputs and all(value is not None for value in inputs):
                for port, value in enumerate(evaluate(op, graph.attributes[node], inputs) or ()):  # type: ignore[arg-type]
                    values[first + port] = value
    return values


def _known_shape(graph: Graph, tensor: int) -> tuple[int, ...] | None:
    shape = graph.shapes[tensor]
    return None if shape is None or -1 in shape else shape


def _shapes_of_inputs(graph: Graph, node: int) -> list[Value] | None:
    shapes = [_known_shape(graph, tensor) for tensor in graph.inputs_of(node)]
    if any(shape is None for shape in shapes):
        return None
    kind = np.int64 if graph.attributes[node].get("out_type") == 9 else np.int32
    return [np.array(shape, kind) for shape in shapes]


def _size_of_input(graph: Graph, node: int) -> list[Value] | None:
    shapes = _shapes_of_inputs(graph, node)
    return None if shapes is None else [np.asarray(np.prod(shapes[0]), shapes[0].dtype)]


def _rank_of_input(graph: Graph, node: int) -> list[Value] | None:
    shape = graph.shapes[graph.inputs_of(node)[0]]
    return None if shape is None else [np.asarray(len(shape), np.int32)]


def _shape_of_variable(graph: Graph, node: int) -> list[Value] | None:
    handle = follow_handle(graph, graph.inputs_of(node)[0])
    if handle not in graph.variables:
        return None
    return [np.array(graph.variables[handle][1], np.int64 if graph.attributes[node].get("out_type") == 9 else np.int32)]


_OF_SHAPES: dict[str, Callable[[Graph, int], list[Value] | None]] = {
    "Shape": _shapes_of_inputs,
    "ShapeN": _shapes_of_inputs,
    "Size": _size_of_input,
    "Rank": _rank_of_input,
    "VariableShape": _shape_of_variable,
}


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda attributes, left, right: function(left, right)


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda attributes, value: function(value)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(attributes: Attributes, value: Value, axes: Value) -> Any:
        axis = tuple(int(number) for number in np.atleast_1d(axes))
        return np.asarray(function(value, axis=axis, keepdims=bool(attributes.get("keep_dims")))).astype(value.dtype)

    return compute


def _cast(attributes: Attributes, value: Value) -> Value:
    name = DTYPES.get(attributes.get("DstT", 0), ("", 0))[0]
    return value.astype(name if name not in ("bfloat16", "float16") else "float32")


def _strided_slice(attributes: Attributes, value: Value, begin: Value, end: Value, strides: Value) -> Any:
    def is_set(mask: str, position: int) -> bool:
        return bool(attributes.get(mask, 0) >> position & 1)

    index: list[Any] = []
    for position, (first, last, stride) in enumerate(zip(begin, end, strides, strict=True)):
        if is_set("ellipsis_mask", position):
            index.append(Ellipsis)
        elif is_set("new_axis_mask", position):
            index.append(np.newaxis)
        elif is_set("shrink_axis_mask", position):
            index.append(int(first))
        else:
            start = None if is_set("begin_mask", position) else int(first)
            stop = None if is_set("end_mask", position) else int(last)
            index.append(slice(start, stop, int(stride)))
    return value[tuple(index)]


def _concat(attributes: Attributes, *inputs: Value) -> Value:
    return np.concatenate(inputs[:-1], axis=int(inputs[-1]))


def _gather(attributes: Attributes, value: Value, indices: Value, axis: Value | int = 0) -> Value:
    return np.take(value, indices, axis=int(axis))


def _dynamic_stitch(attributes: Attributes, *inputs: Value) -> Value:
    half = len(inputs) // 2
    positions = np.concatenate([np.ravel(index) for index in inputs[:half]])
    parts = np.concatenate([np.ravel(data) for data in inputs[half:]])
    result = np.zeros(int(positions.max()) + 1, parts.dtype)
    result[positions] = parts
    return result


def _squeeze(attributes: Attributes, value: Value) -> Value:
    axes = tuple(attributes.get("squeeze_dims") or ())
    return np.squeeze(value, axis=axes or None)


def _broadcast_axes(attributes: Attributes, left: Value, right: Value) -> list[Value]:
    rank = max(left.size, right.size)
    padded = [np.concatenate([np.ones(rank - shape.size, shape.dtype), shape]) for shape in (left, right)]
    result = []
    for mine in padded:
        result.append(np.array([axis for axis in range(rank) if mine[axis] == 1], left.dtype))
        if mine is padded[0] and (padded[0] == padded[1]).all():
            return [np.zeros(0, left.dtype), np.zeros(0, left.dtype)]
    return result


# The number of elements of outputs that may be far larger than the inputs, so that those are not computed.
_COUNTS: dict[str, Callable[..., float]] = {
    "Fill": lambda shape, value: math.prod(int(size) for size in shape),
    "Tile": lambda value, multiples: value.size * math.prod(int(count) for count in multiples),
    "Range": lambda first, last, stride: (float(last) - float(first)) / float(stride),
    "DynamicStitch": lambda *inputs: max((int(np.max(index)) + 1 for index in inputs[: len(inputs) // 2]), default=0),
}
_COUNTS["ParallelDynamicStitch"] = _COUNTS["DynamicStitch"]

_OPS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        "Identity StopGradient Snapshot PreventGradient LoopCond EnsureShape".split(), _unary(lambda value: value)
    ),
    **dict.fromkeys("Add AddV2".split(), _binary(np.add)),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "FloorDiv": _binary(np.floor_divide),
    "FloorMod": _binary(np.mod),
    "RealDiv": _binary(np.true_divide),
    "Maximum": _binary(np.maximum),
    "Minimum": _binary(np.minimum),
    "Less": _binary(np.less),
    "LessEqual": _binary(np.less_equal),
    "Greater": _binary(np.greater),
    "GreaterEqual": _binary(np.greater_equal),
    "Equal": _binary(np.equal),
    "NotEqual": _binary(np.not_equal),
    "LogicalAnd": _binary(np.logical_and),
    "LogicalOr": _binary(np.logical_or),
    "LogicalNot": _unary(np.logical_not),
    "Neg": _unary(np.negative),
    "Abs": _unary(np.abs),
    "Ceil": _unary(np.ceil),
    "Floor": _unary(np.floor),
    "ZerosLike": _unary(np.zeros_like),
    "OnesLike": _unary(np.ones_like),
    "InvertPermutation": _unary(np.argsort),
    "Cast": _cast,
    "Pack": lambda attributes, *inputs: np.stack(inputs, axis=attributes.get("axis", 0)),
    "Unpack": lambda attributes, value: list(np.moveaxis(value, attributes.get("axis", 0), 0)),
    "ConcatV2": _concat,
    "StridedSlice": _strided_slice,
    "Slice": lambda attributes, value, begin, size: value[
        tuple(
            slice(int(first), None if count < 0 else int(first + count))
            for first, count in zip(begin, size, strict=True)
        )
    ],
    "GatherV2": _gather,
    "Gather": _gather,
    "Prod": _reduction(np.prod),
    "Sum": _reduction(np.sum),
    "Max": _reduction(np.max),
    "Min": _reduction(np.min),
    "All": _reduction(np.all),
    "Any": _reduction(np.any),
    "Range": lambda attributes, first, last, stride: np.arange(first, last, stride),
    "Reshape": lambda attributes, value, shape: np.reshape(value, [int(size) for size in shape]),
    "Squeeze": _squeeze,
    "ExpandDims": lambda attributes, value, axis: np.expand_dims(value, int(axis)),
    "DynamicStitch": _dynamic_stitch,
    "ParallelDynamicStitch": _dynamic_stitch,
    "Fill": lambda attributes, shape, value: np.full([int(size) for size in shape], value),
    "Tile": lambda attributes, value, multiples: np.tile(value, [int(count) for count in multiples]),
    "SelectV2": lambda attributes, condition, left, right: np.where(condition, left, right),
    "Select": lambda attributes, condition, left, right: np.where(condition, left, right),
    "BroadcastArgs": lambda attributes, left, right: np.array(
        np.broadcast_shapes(tuple(int(size) for size in left), tuple(int(size) for size in right)), left.dtype
    ),
    "BroadcastGradientArgs": _broadcast_axes,
    "ReverseV2": lambda attributes, value, axes: np.flip(value, tuple(int(axis) for axis in np.atleast_1d(axes))),
    "Transpose": lambda attributes, value, order: np.transpose(value, [int(axis) for axis in order]),
}
