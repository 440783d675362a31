"""Estimates the duration of a node, precisely enough to decide which of two ready nodes ends first.

Only ratios matter: the executor simulation uses durations to interleave its threads. The rates were measured for single
kernels, each run alone on a small CPU with all its cores (`benchmarks/kernels.py` measures them again). The model
follows the kernels: a matrix product packs its operands into panels, slowly if they are transposed; the gradients of a
convolution unfold the image into columns first, so a large filter is slow even with few channels. A recorded tide has
measured durations (`tide.times`), which replace these estimates in a plan.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence

from lowtide.program.dtypes import RESOURCE
from lowtide.program.graph import Graph

FLOPS_PER_US = 150_000.0
# With fewer channels the vector units are partly idle: a kernel needs two vectors of up to 16 floats.
FULL_CHANNELS = 32
# A product's operands are packed into panels first, which dominates the time of a thin product.
PACKED_BYTES_PER_US = 14_000.0
PACKED_TRANSPOSED_BYTES_PER_US = 3_000.0
PACKED_TRANSPOSED_RIGHT_BYTES_PER_US = 1_500.0
# A product's result is accumulated in place, panel by panel.
SUMMED_BYTES_PER_US = 8_000.0
# A convolution's gradients unfold images into columns, and fold columns into images, patch by patch.
FOLDED_BYTES_PER_US = 13_000.0
UNFOLDED_BYTES_PER_US = 3_500.0
PATCHES_PER_US = 160.0
# The gradient of the input packs the filter again for each image; oneDNN packs it once, in all three kernels.
FILTER_BYTES_PER_US = 2_000.0
# An image whose channels do not fill a vector is copied element by element.
ODD_PATCHES_PER_US = 14.0
DEPTHWISE_FLOPS_PER_US = 15_000.0

BYTES_PER_US = 35_000.0
# Bytes read and written per microsecond, for kernels that are slower than the memory.
_SLOWER = {
    10_000.0: "Sum Mean Prod Max Min All Any EuclideanNorm MaxPool MaxPool3D Slice StridedSlice StridedSliceGrad "
    "BiasAddGrad",
    15_000.0: "Exp Expm1 Log Log1p Sigmoid Tanh Sin Cos Softplus Elu Selu _MklSwish SquaredDifference Tile BroadcastTo "
    "SelectV2 ResizeBilinear ResizeNearestNeighbor _MklNativeMaxPoolGrad",
    7_000.0: "Softmax LogSoftmax Transpose ConjugateTranspose AvgPool AvgPoolGrad FusedBatchNormGradV3 "
    "ResizeBilinearGrad ResizeNearestNeighborGrad Reverse ReverseV2 MirrorPad MirrorPadGrad _UnaryOpsComposition",
    4_000.0: "Erf Erfc FusedBatchNormV3 _FusedBatchNormEx UnsortedSegmentSum SegmentSum SegmentSumV2 ScatterNd "
    "TensorScatterAdd ResourceScatterAdd Unique",
    2_500.0: "MaxPoolGrad MaxPool3DGrad AvgPool3D AvgPool3DGrad SparseSoftmaxCrossEntropyWithLogits "
    "SoftmaxCrossEntropyWithLogits LRN LRNGrad",
    1_500.0: "Pow Cumsum Cumprod TopKV2 Erfinv StatelessRandomUniformV2 RandomUniform StatelessRandomUniformIntV2 "
    "StatelessRandomUniformFullIntV2",
    500.0: "StatelessRandomNormalV2 StatelessTruncatedNormalV2 RandomStandardNormal TruncatedNormal",
}
_BYTES_PER_US = {op: rate for rate, ops in _SLOWER.items() for op in ops.split()}
# A vector that is broadcast along other axes is read element by element.
BROADCAST_SLOWDOWN = 2.0
_BROADCASTING = frozenset("Add AddV2 Sub Mul RealDiv SquaredDifference Maximum Minimum".split())

# The prefix of oneDNN's kernels.
_ONEDNN = "_Mkl"
_MATRIX_PRODUCTS = frozenset({"MatMul"})
_BATCHED_PRODUCTS = frozenset("BatchMatMul BatchMatMulV2 BatchMatMulV3".split())

# These pass on a buffer or a handle without copying it.
_FREE = frozenset(
    "ReadVariableOp AssignVariableOp Identity IdentityN Reshape Squeeze ExpandDims StopGradient PreventGradient Shape "
    "ShapeN Size Rank Switch Merge Enter Exit NextIteration LoopCond _Arg _Retval _DeviceArg _DeviceRetval Const NoOp "
    "Bitcast TensorListGetItem TensorListSetItem TensorListPushBack TensorListPopBack TensorListReserve "
    "EmptyTensorList".split()
)


def node_cost_us(graph: Graph, node: int, sizes: Sequence[int]) -> float:
    """Return the estimated microseconds of one node."""
    kernel = graph.ops[node]
    if kernel in _FREE:
        return 0.0
    op = _plain(kernel)
    if op in _MATRIX_PRODUCTS or op in _BATCHED_PRODUCTS:
        return _product_us(graph, node, op, sizes)
    moved_us = _moved_bytes(graph, node, op, sizes) / _BYTES_PER_US.get(kernel, _BYTES_PER_US.get(op, BYTES_PER_US))
    if "Conv" in op:
        return max(moved_us, _convolution_us(graph, node, op, packs_once=kernel.startswith(_ONEDNN)))
    return moved_us * BROADCAST_SLOWDOWN if op in _BROADCASTING and _repeats_a_vector(graph, node) else moved_us


@functools.cache
def _plain(kernel: str) -> str:
    """Return the op that a kernel of oneDNN, or one fused with a bias and an activation, computes."""
    return re.sub(r"^_?Fused(?=Conv|MatMul|BatchMatMul|Depthwise)", "", re.sub(r"^_Mkl(Native)?", "", kernel))


def _moved_bytes(graph: Graph, node: int, op: str, sizes: Sequence[int]) -> int:
    inputs = graph.inputs_of(node)
    moved = sum(sizes[tensor] for tensor in graph.outputs_of(node)) + sum(sizes[tensor] for tensor in inputs)
    if op.startswith(("AssignAdd", "AssignSub", "ResourceApply")):
        # Each updated variable is read and written, and has the size of the update.
        variables = sum(graph.dtypes[tensor] == RESOURCE for tensor in inputs)
        moved += 2 * variables * max((sizes[tensor] for tensor in inputs), default=0)
    return moved


def _repeats_a_vector(graph: Graph, node: int) -> bool:
    """Whether an operand with several elements is broadcast to a larger tensor; broadcasting a scalar is free."""
    (result, *_) = graph.outputs_of(node)
    shape = graph.shapes[result]
    operands = [graph.shapes[tensor] for tensor in graph.inputs_of(node)]
    return any(each is not None and shape is not None and 1 < math.prod(each) < math.prod(shape) for each in operands)


def _product_us(graph: Graph, node: int, op: str, sizes: Sequence[int]) -> float:
    left, right = graph.inputs_of(node)[:2]
    (result,) = graph.outputs_of(node)[:1]
    attributes = graph.attributes[node]
    left_turned = bool(attributes.get("transpose_a") or attributes.get("adj_x"))
    right_turned = bool(attributes.get("transpose_b") or attributes.get("adj_y"))
    if op in _BATCHED_PRODUCTS:
        # Many small products: panels are rarely reused, and no result is in the cache.
        packing = (sizes[left] + sizes[right] + sizes[result]) / (PACKED_BYTES_PER_US / 2)
        packing += (left_turned * sizes[left] + right_turned * sizes[right]) / PACKED_TRANSPOSED_BYTES_PER_US
    else:
        packing = sizes[left] / (PACKED_TRANSPOSED_BYTES_PER_US if left_turned else PACKED_BYTES_PER_US)
        packing += sizes[right] / (PACKED_TRANSPOSED_RIGHT_BYTES_PER_US if right_turned else PACKED_BYTES_PER_US)
        packing += sizes[result] / SUMMED_BYTES_PER_US
    rows, summed = graph.shapes[result], graph.shapes[left]
    if not rows or not summed or -1 in rows or -1 in summed:
        return packing
    return packing + 2.0 * math.prod(rows) * summed[-2 if left_turned else -1] / FLOPS_PER_US


def _convolution_us(graph: Graph, node: int, op: str, *, packs_once: bool) -> float:
    """Return the time for the arithmetic and, for gradients, for the unfolded columns."""
    inputs, (result, *_) = graph.inputs_of(node), graph.outputs_of(node)
    if "Backprop" in op:
        filters, image = graph.shapes[result if "BackpropFilter" in op else inputs[1]], graph.shapes[inputs[2]]
    else:
        filters, image = graph.shapes[inputs[1]], graph.shapes[result]
    if not filters or not image or -1 in filters or -1 in image or len(filters) < 4 or len(filters) != len(image):
        return 0.0
    positions = math.prod(image[:-1])
    if "Depthwise" in op:
        return 2.0 * positions * math.prod(filters) / DEPTHWISE_FLOPS_PER_US
    *window, channels, results = filters
    patches = positions * math.prod(window)
    columns = 4.0 * patches * channels
    flops = 2.0 * patches * channels * results
    packing = 4.0 * math.prod(filters) / FILTER_BYTES_PER_US
    if "BackpropInput" in op:
        folding = max(columns / FOLDED_BYTES_PER_US, patches / PATCHES_PER_US)
        return flops / FLOPS_PER_US + folding + packing * (1 if packs_once else image[0])
    if "BackpropFilter" in op:
        unfolding = max((columns + 4.0 * positions * results) / UNFOLDED_BYTES_PER_US, patches / PATCHES_PER_US)
        return flops / FLOPS_PER_US + unfolding + packing * packs_once
    multiplying = flops * max(1.0, FULL_CHANNELS / results) / FLOPS_PER_US
    if packs_once:
        return multiplying + packing
    return multiplying + (positions / ODD_PATCHES_PER_US if channels % 4 and math.prod(window) > 1 else 0.0)
