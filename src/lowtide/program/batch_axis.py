"""The batch axis: which axis of each tensor grows with the batch size.

A program is traced for one batch size, which then appears in its shapes like any other number. The batch axis is found
by propagation from the inputs: it passes through elementwise ops, moves with a transpose, stays first in a reshape, and
ends where it is summed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from lowtide.program.graph import Graph, Shape

Axis = int | None

_REDUCTIONS = frozenset("Sum Mean Max Min Prod All Any ArgMax ArgMin".split())
_PRODUCTS = frozenset("MatMul _FusedMatMul _MklMatMul _MklFusedMatMul _MklNativeFusedMatMul".split())
# These contract the batch axis: a gradient of weights has none.
_CONTRACTIONS = ("BackpropFilter", "BiasAddGrad")
# The first dimension of these is an argument, a number of segments or rows, and not a size of the data.
_COUNTED = frozenset("UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentProd ScatterNd SegmentSumV2".split())
_GATHERS = frozenset("GatherV2 Gather ResourceGather".split())


def batch_axes(graph: Graph, order: Iterable[int], batch_size: int, inputs: Sequence[int]) -> list[Axis]:
    """Return the batch axis of every tensor of a graph traced for `batch_size`; `inputs` are tensor ids."""
    axes: list[Axis] = [None] * graph.tensor_count
    for tensor in inputs:
        shape = graph.shapes[tensor]
        if shape and shape[0] == batch_size:
            axes[tensor] = 0
    for node in order:
        sources = graph.inputs_of(node)
        source_axes = [axes[tensor] for tensor in sources]
        if all(axis is None for axis in source_axes):
            continue
        for tensor in graph.outputs_of(node):
            shape = graph.shapes[tensor]
            if shape and -1 not in shape:
                axis = _axis_of(graph, node, sources, source_axes, shape)
                if axis is not None and axis < len(shape) and shape[axis] and shape[axis] % batch_size == 0:
                    axes[tensor] = axis
    return axes


def _axis_of(graph: Graph, node: int, sources: Sequence[int], source_axes: list[Axis], shape: Shape) -> Axis:
    op, attributes = graph.ops[node], graph.attributes[node]
    if op in _COUNTED or any(part in op for part in _CONTRACTIONS):
        return None
    if op in _PRODUCTS:
        kept = 1 if attributes.get("transpose_a") else 0
        return 0 if source_axes[0] == kept else None
    if op in _GATHERS:
        return 0 if source_axes[1] is not None else source_axes[0]
    axis = next(axis for axis in source_axes if axis is not None)
    source = next(tensor for tensor, axis in zip(sources, source_axes, strict=True) if axis is not None)
    before = graph.shapes[source]
    if before is None or -1 in before:
        return axis
    if op in _REDUCTIONS:
        return _after_reduction(axis, len(before), graph.values.get(sources[1]), len(shape) == len(before))
    if op == "Transpose":
        order = graph.values.get(sources[1])
        return axis if order is None else [int(number) for number in order].index(axis)
    if op == "Reshape":
        return _after_reshape(axis, before, shape)
    if op == "ExpandDims":
        added = graph.values.get(sources[1])
        return axis + 1 if added is not None and 0 <= int(added) <= axis else axis
    if op in ("Squeeze", "Unpack"):
        return _after_reshape(axis, before, shape)
    if op == "Pack":
        return axis + 1 if attributes.get("axis", 0) <= axis else axis
    # Elementwise ops align shapes at their last axis.
    return axis + len(shape) - len(before) if len(shape) > len(before) else axis


def _after_reduction(axis: int, rank: int, reduced: object, kept: bool) -> Axis:
    if reduced is None:
        return axis
    reduced_axes = {int(number) % rank for number in np.ravel(np.asarray(reduced))}
    if axis in reduced_axes:
        return None
    return axis if kept else axis - sum(number < axis for number in reduced_axes)


def _after_reshape(axis: int, before: Shape, after: Shape) -> Axis:
    """Return the axis that has as many elements before it as the old one."""
    if axis == 0:
        return 0
    preceding = math.prod(before[:axis])
    return next((new for new in range(len(after)) if math.prod(after[:new]) == preceding), None)
