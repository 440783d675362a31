"""How the tensors of a traced graph depend on the rows of the batch.

The graph is traced for a batch of unknown size, so the batch axis is the axis without a size. Each tensor depends on
the batch in one of a few ways, which follow from the op and from how its inputs depend on the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf

# A tensor is independent of the batch; has the batch as its first axis, with each row computed from one row; is the
# mean or the sum of such rows; is computed from the size of the batch; or is anything else, so that it combines rows.
CONSTANT, ROWS, MEAN, SUM, COUNT, MIXED = "constant", "rows", "mean", "sum", "count", "mixed"

_SHAPES = ("Shape", "ShapeN", "Size")
_DIVISIONS = ("RealDiv", "DivNoNan", "Div")
_PRODUCTS = ("Mul", "MulNoNan")
# Linear ops: the sum of their results for two micro-batches is their result for the sum.
_LINEAR = frozenset(
    "Identity Cast Neg Reshape Squeeze ExpandDims StopGradient PreventGradient Snapshot EnsureShape Sum Mean Pack "
    "Unpack ConcatV2 AddN AddV2 Add Sub Split StridedSlice GatherV2 Transpose".split()
)
_ADDITIONS = frozenset("AddV2 Add Sub AddN Pack ConcatV2".split())
# Ops that create rows from a size.
_FILLS = frozenset("Fill BroadcastTo Tile Range Reshape".split())
# Ops that work along an axis, and so combine rows if it is the first: the position of the axis among their inputs.
_AXIS_INPUT = {"Cumsum": 1, "Cumprod": 1, "ReverseV2": 1, "Roll": 2, "GatherV2": 2, "ConcatV2": -1}
_ACROSS = ("RandomShuffle", "SegmentSum", "SegmentMean", "UnsortedSegmentSum", "Unique", "UniqueV2", "Where")


def find_dependences(
    graph: tf.Graph, batch: Collection[str], known: dict[str, str], resets: Callable[[Any], bool]
) -> tuple[dict[str, str], list[Any]]:
    """Return how every tensor depends on the batch, by its name, and the ops that combine rows.

    `batch` names the placeholders of the batch, `known` has dependences that are given. After an op with `resets(op)`
    that combines rows, its output counts as rows again, so that all such ops are found and not only the first.
    """
    dependences: dict[str, str] = {}
    cross_row_ops = []
    for op in graph.get_operations():
        inputs = [dependences[tensor.name] for tensor in op.inputs]
        for index, output in enumerate(op.outputs):
            dependence = _dependence(op, index, output, inputs, batch)
            if dependence == MIXED and resets(op):
                if MIXED not in inputs:
                    cross_row_ops.append(op)
                dependence = ROWS if _has_rows(output) else MIXED
            dependences[output.name] = known.get(output.name, dependence)
    return dependences, cross_row_ops


def _dependence(op: Any, index: int, output: Any, inputs: list[str], batch: Collection[str]) -> str:
    if op.type == "Placeholder":
        return ROWS if output.name in batch and output.shape.rank != 0 else CONSTANT
    live = set(inputs) - {CONSTANT}
    if not live:
        return CONSTANT
    if op.type == "IdentityN":
        return inputs[index]
    if op.type in _SHAPES:
        return COUNT if live & {ROWS, MIXED} else CONSTANT
    if MIXED in live:
        return ROWS if op.type in _SHAPES else MIXED
    if live == {COUNT}:
        return ROWS if op.type in _FILLS or "Random" in op.type else COUNT
    if ROWS in live:
        return _of_row_inputs(op, output, inputs, live)
    return _of_reduced_inputs(op, inputs, live)


def _of_row_inputs(op: Any, output: Any, inputs: list[str], live: set[str]) -> str:
    if live - {ROWS, COUNT} or _combines_rows(op, inputs):
        return MIXED
    if op.type in ("Sum", "Mean") and inputs[0] == ROWS:
        axes = _constant(op.inputs[1])
        if axes is None:
            return MIXED
        rank = op.inputs[0].shape.rank
        first = 0 in axes or (rank is not None and -rank in axes)
        return (SUM if op.type == "Sum" else MEAN) if first else ROWS
    if op.type == "L2Loss":
        return SUM
    if COUNT in live and op.type in (*_DIVISIONS, *_PRODUCTS):
        return MIXED
    return ROWS if _has_rows(output) else MIXED


def _of_reduced_inputs(op: Any, inputs: list[str], live: set[str]) -> str:
    if live == {SUM, COUNT} and op.type in _DIVISIONS and inputs[:2] == [SUM, COUNT]:
        return MEAN
    if live == {MEAN, COUNT} and op.type in _PRODUCTS:
        return SUM
    if len(live) > 1:
        return MIXED
    (kind,) = live
    if op.type in _PRODUCTS:
        return kind if inputs.count(kind) == 1 else MIXED
    if op.type in _DIVISIONS:
        return kind if inputs[0] == kind and inputs[1] == CONSTANT else MIXED
    if op.type in _ADDITIONS and kind == SUM and _data(op, inputs).count(SUM) < len(_data(op, inputs)):
        # A term that is independent of the batch would be added once for each micro-batch.
        return MIXED
    return kind if op.type in _LINEAR else MIXED


def _data(op: Any, inputs: list[str]) -> list[str]:
    return inputs[:-1] if op.type == "ConcatV2" else inputs


def _combines_rows(op: Any, inputs: list[str]) -> bool:
    """Whether the op combines different rows, even if its output has as many."""
    if op.type in _ACROSS:
        return True
    if op.type == "MatMul":
        return inputs.count(ROWS) > 1 or inputs[0] != ROWS or bool(op.get_attr("transpose_a"))
    if op.type == "Einsum":
        return _einsum_combines_rows(op, inputs)
    if op.type == "Transpose":
        order = _constant(op.inputs[1])
        return order is None or order[0] != 0
    if op.type in _AXIS_INPUT:
        axis = _constant(op.inputs[_AXIS_INPUT[op.type]])
        across = axis is None or 0 in axis
        if op.type == "GatherV2":
            across = across and inputs[0] == ROWS and not op.get_attr("batch_dims")
        return across
    if op.type == "StridedSlice" and inputs[0] == ROWS:
        strides = _constant(op.inputs[3])
        whole = op.get_attr("begin_mask") & op.get_attr("end_mask") & 1 or op.get_attr("ellipsis_mask") & 1
        return not whole or strides is None or (len(strides) > 0 and strides[0] != 1)
    return False


def _einsum_combines_rows(op: Any, inputs: list[str]) -> bool:
    left, _, right = op.get_attr("equation").decode().partition("->")
    terms = [term for term, kind in zip(left.split(","), inputs, strict=True) if kind == ROWS]
    if right.startswith("..."):
        return not all(term.startswith("...") for term in terms)
    return not right or any(term[:1] != right[:1] for term in terms)


def _constant(tensor: Any) -> list[int] | None:
    value = tf.get_static_value(tensor)
    return None if value is None else [int(number) for number in value.reshape(-1)]


def _has_rows(output: Any) -> bool:
    return output.shape.rank is None or (output.shape.rank > 0 and output.shape[0] is None)
