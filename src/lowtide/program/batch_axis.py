"""Where the batch is: which axis of each tensor grows with the batch size.

A program is traced for one batch size, and the number then stands in its shapes like any other. Which sizes are
the batch is found by following it from the inputs: it passes through elementwise ops, moves with a transpose, stays
in front of a reshape, and ends where it is summed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from lowtide.program.graph import Graph, Shape

Axis = int | None

_REDUCTIONS = frozenset("Sum Mean Max Min Prod All Any ArgMax ArgMin".split())
_PRODUCTS = frozenset("MatMul _FusedMatMul _MklMatMul _MklFusedMatMul _MklNativeFusedMatMul".split())
# These contract the batch: a gradient of weights has none.
_CONTRACTIONS = ("BackpropFilter", "BiasAddGrad")
# The leading size of these comes from an argument that counts segments or rows, not from the data.
_COUNTED = frozenset("UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentProd ScatterNd SegmentSumV2".split())
_GATHERS = frozenset("GatherV2 Gather ResourceGather".split())


def batch_axes(graph: Graph, order: Iterable[int], batch_size: int, inputs: Sequence[int]) -> list[Axis]:
    """The batch axis of every tensor of a graph whose shapes are those of `batch_size`; `inputs` are tensor ids."""
    axes: list[Axis] = [None] * graph.tensor_count
    for tensor in inputs:
        shape = graph.shapes[tensor]
        if shape and shape[0] == batch_size:
            axes[tensor] = 0
    for node in order:
        sources = graph.inputs_of(node)
        held = [axes[tensor] for tensor in sources]
        if all(axis is None for axis in held):
            continue
        for tensor in graph.outputs_of(node):
            shape = graph.shapes[tensor]
            if shape and -1 not in shape:
                axis = _axis_of(graph, node, sources, held, shape)
                if axis is not None and axis < len(shape) and shape[axis] and shape[axis] % batch_size == 0:
                    axes[tensor] = axis
    return axes


def _axis_of(graph: Graph, node: int, sources: Sequence[int], held: list[Axis], shape: Shape) -> Axis:
    op, attributes = graph.ops[node], graph.attributes[node]
    if op in _COUNTED or any(part in op for part in _CONTRACTIONS):
        return None
    if op in _PRODUCTS:
        kept = 1 if attributes.get("transpose_a") else 0
        return 0 if held[0] == kept else None
    if op in _GATHERS:
        return 0 if held[1] is not None else held[0]
    axis = next(axis for axis in held if axis is not None)
    source = next(tensor for tensor, axis in zip(sources, held, strict=True) if axis is not None)
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
        place = graph.values.get(sources[1])
        return axis + 1 if place is not None and 0 <= int(place) <= axis else axis
    if op in ("Squeeze", "Unpack"):
        return _after_reshape(axis, before, shape)
    if op == "Pack":
        return axis + 1 if attributes.get("axis", 0) <= axis else axis
    # Elementwise ops line shapes up at their ends.
    return axis + len(shape) - len(before) if len(shape) > len(before) else axis


def _after_reduction(axis: int, rank: int, reduced: object, kept: bool) -> Axis:
    if reduced is None:
        return axis
    gone = {int(number) % rank for number in np.ravel(np.asarray(reduced))}
    if axis in gone:
        return None
    return axis if kept else axis - sum(number < axis for number in gone)


def _after_reshape(axis: int, before: Shape, after: Shape) -> Axis:
    """The axis that begins where the old one began; in front, that is the first."""
    if axis == 0:
        return 0
    ahead = math.prod(before[:axis])
    for place in range(len(after)):
        if math.prod(after[:place]) == ahead:
            return place
    return None
