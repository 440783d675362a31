"""How long a node takes, roughly: enough to tell which of two ready nodes ends first.

Only ratios matter: the executor simulation uses durations to interleave its threads. A kernel is bound by
arithmetic (convolutions and matrix products) or by the bytes it moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lowtide.graph.graph import Graph
from lowtide.graph.machine import current_machine

# Throughput of a small CPU with all its cores at work, per microsecond. Gradients of convolutions are slower by
# their rearranging; reductions and broadcasts do not reach the memory's speed.
CONVOLUTION_FLOPS_PER_US = 120_000.0
CONVOLUTION_GRADIENT_FLOPS_PER_US = 50_000.0
PRODUCT_FLOPS_PER_US = 60_000.0
# A product's operands are packed into panels first, which is what a thin product spends its time on.
PACKED_BYTES_PER_US = 4_000.0
BYTES_PER_US = 12_000.0
REDUCED_BYTES_PER_US = 4_300.0
# What fits into the last cache moves faster.
CACHED_SPEEDUP = 3.0

_MATRIX_PRODUCTS = frozenset(
    "MatMul _FusedMatMul _MklMatMul _MklFusedMatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 _MklBatchMatMul "
    "_MklBatchMatMulV2 _MklFusedBatchMatMulV2".split()
)


_REDUCTIONS = frozenset(
    "Sum Mean Prod Max Min All Any BiasAddGrad Tile BroadcastTo Transpose FusedBatchNormV3 FusedBatchNormGradV3 "
    "Softmax LogSoftmax GatherV2 UnsortedSegmentSum".split()
)

# These hand on a buffer or a handle: they move nothing, whatever its size.
_FREE = frozenset(
    "ReadVariableOp AssignVariableOp Identity IdentityN Reshape Squeeze ExpandDims StopGradient PreventGradient Shape "
    "ShapeN Size Rank Switch Merge Enter Exit NextIteration LoopCond _Arg _Retval _DeviceArg _DeviceRetval Const NoOp "
    "Bitcast TensorListGetItem TensorListSetItem TensorListPushBack TensorListPopBack TensorListReserve "
    "EmptyTensorList".split()
)


def node_cost_us(graph: Graph, node: int, sizes: Sequence[int]) -> float:
    """Estimated microseconds of one node."""
    op = graph.ops[node]
    if op in _FREE:
        return 0.0
    moved = sum(sizes[tensor] for tensor in graph.outputs_of(node)) + sum(
        sizes[tensor] for tensor in graph.inputs_of(node)
    )
    bytes_us = moved / (REDUCED_BYTES_PER_US if op in _REDUCTIONS else BYTES_PER_US)
    if moved <= current_machine().l3_cache_bytes:
        bytes_us /= CACHED_SPEEDUP
    if op in _MATRIX_PRODUCTS:
        bytes_us += sum(sizes[tensor] for tensor in graph.inputs_of(node)[:2]) / PACKED_BYTES_PER_US
    return bytes_us + _arithmetic_us(graph, node, op)


def _arithmetic_us(graph: Graph, node: int, op: str) -> float:
    """Time of the arithmetic of convolutions and matrix products; the rest is bound by the bytes it moves."""
    if op in _MATRIX_PRODUCTS:
        return _matrix_product(graph, node) / PRODUCT_FLOPS_PER_US
    if "Conv" in op:
        rate = CONVOLUTION_GRADIENT_FLOPS_PER_US if "Backprop" in op else CONVOLUTION_FLOPS_PER_US
        return _convolution(graph, node, op) / rate
    return 0.0


def _matrix_product(graph: Graph, node: int) -> float:
    left, result = graph.shapes[graph.inputs_of(node)[0]], graph.shapes[graph.outputs_of(node)[0]]
    if not left or not result or -1 in left or -1 in result:
        return 0.0
    attributes = graph.attributes[node]
    transposed = attributes.get("transpose_a") or attributes.get("adj_x")
    shared = left[-2] if transposed else left[-1]
    return 2.0 * math.prod(result) * shared


def _convolution(graph: Graph, node: int, op: str) -> float:
    """Twice the filter's size per position of the smaller-scale side, whichever direction is computed."""
    shapes = [graph.shapes[tensor] for tensor in (*graph.inputs_of(node)[:3], *graph.outputs_of(node)[:1])]
    known = [shape for shape in shapes if shape and -1 not in shape and len(shape) >= 4]
    if len(known) < 2:
        return 0.0
    if "BackpropFilter" in op:
        filters, images = known[-1], known[-2]
    elif "BackpropInput" in op:
        filters, images = known[0], known[1]
    else:
        filters, images = known[1], known[-1]
    return 2.0 * float(math.prod(images[:-1]) * math.prod(filters))
