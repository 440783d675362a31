"""Layers of neural networks: convolution, pooling, normalization, losses, image ops.

TensorFlow's own kernels pack matrices in memory outside the allocator, so a convolution needs no buffer besides its
output. Its gradients do: they unfold images into columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.facts.reductions import partial_sums
from lowtide.program.facts.shapes import divide_up, elements, input_shape, item_bytes, known, output_shape, round_up
from lowtide.program.graph import NodeView, Shape
from lowtide.program.machine import current_machine

# The gradients of two-dimensional convolutions use these built-in sizes.
_WORKING_SET_BYTES = 30 * 2**20
_THREAD_WORK_BYTES = 256 * 2**10
# The gradients of three-dimensional ones use the cache size of the machine, and do not unfold if that would take more
# than this many times the memory of all operands.
_LARGEST_OVERHEAD = 25
# The size of a vector register for the instructions that TensorFlow's wheel is built for (AVX).
_PACKET_BYTES = 32
# The least work per thread, in cycles, for which a kernel uses several threads.
_THREAD_CYCLES = 100_000


def _columns(filter_shape: Shape, out_shape: Shape) -> tuple[int, int]:
    """Return the elements of one image's columns, and of all operands of one image's product."""
    window = elements(filter_shape[:-1])
    depth = filter_shape[-1]
    pixels = elements(out_shape[1:-1])
    return pixels * window, pixels * window + pixels * depth + window * depth


def _filter_gradient(node: NodeView) -> Sequence[int]:
    """The number of images unfolded at once fills the working set, even if the batch is smaller."""
    if elements(output_shape(node)) == 0:
        return ()
    item = item_bytes(node.output_dtype(0))
    column, work = _columns(output_shape(node), input_shape(node, 2))
    return [divide_up(_WORKING_SET_BYTES // item, work) * column * item]


def _input_gradient(node: NodeView) -> Sequence[int]:
    """One image is unfolded at a time if that keeps all threads busy, else as many as fill the working set."""
    out = input_shape(node, 2)
    if elements(out) == 0:
        return ()
    item = item_bytes(node.output_dtype(0))
    column, work = _columns(input_shape(node, 1), out)
    threads = current_machine().intra_op_threads
    one_by_one = out[0] == 1 or work // threads >= _THREAD_WORK_BYTES // item
    images = 1 if one_by_one else divide_up(_WORKING_SET_BYTES // item, work)
    return [images * column * item]


def _volume_gradient(node: NodeView, filter_shape: Shape, image_shape: Shape, batch_in_parallel: bool) -> Sequence[int]:
    out = input_shape(node, 2)
    if elements(out) == 0 or elements(filter_shape) == 0:
        return ()
    item = item_bytes(node.output_dtype(0))
    column, work = _columns(filter_shape, out)
    images = divide_up(current_machine().l3_cache_bytes // item, work)
    if batch_in_parallel and out[0] == 1:
        images = 1
    operands = elements(image_shape) + elements(filter_shape) + elements(out)
    if images * column // operands > _LARGEST_OVERHEAD:
        return ()
    return [images * column * item]


def _volume_filter_gradient(node: NodeView) -> Sequence[int]:
    return _volume_gradient(node, output_shape(node), input_shape(node, 0), False)


def _volume_input_gradient(node: NodeView) -> Sequence[int]:
    return _volume_gradient(node, input_shape(node, 1), output_shape(node), True)


def _grouped(node: NodeView) -> Sequence[int]:
    """A grouped convolution uses copies of its operands and of its result with the groups as the first dimension."""
    image, weights = input_shape(node, 0), input_shape(node, 1)
    if node.attribute("data_format", "NHWC") != "NHWC" or image[-1] == weights[-2]:
        return ()
    item = item_bytes(node.input_dtype(0))
    return [elements(shape) * item for shape in (image, weights, output_shape(node))]


def _depthwise_sizes(node: NodeView, weights: Shape) -> tuple[int, int, bool]:
    """Return the bytes of a filter padded to full registers, of one of its rows, and whether padding is needed."""
    item = item_bytes(node.output_dtype(0))
    depth = weights[2] * weights[3]
    padded = round_up(depth, max(_PACKET_BYTES // item, 1))
    return weights[0] * weights[1] * padded * item, padded * item, padded != depth


def _shards(units: int, cost: float) -> int:
    """Return the number of threads that work in parallel: one for a small task, else at most one per unit of work."""
    busy = int((units * cost - _THREAD_CYCLES) / _THREAD_CYCLES + 0.9)
    return max(1, min(units, busy, current_machine().intra_op_threads))


def _depthwise(node: NodeView) -> Sequence[int]:
    filter_bytes, _, is_padded = _depthwise_sizes(node, input_shape(node, 1))
    batch, rows, columns, depth = output_shape(node)
    return [filter_bytes] * (is_padded + _shards(batch * rows, 2.5 * columns * depth))


def _depthwise_input_gradient(node: NodeView) -> Sequence[int]:
    filter_bytes, row_bytes, is_padded = _depthwise_sizes(node, input_shape(node, 1))
    batch, rows, columns, _ = output_shape(node)
    shards = _shards(batch, rows * columns * input_shape(node, 2)[3])
    return [filter_bytes] * (is_padded + shards) + [row_bytes] * shards


def _depthwise_filter_gradient(node: NodeView) -> Sequence[int]:
    filter_bytes, _, _ = _depthwise_sizes(node, output_shape(node))
    batch, rows, columns, depth = input_shape(node, 2)
    return [batch * filter_bytes] + [filter_bytes] * _shards(batch, rows * columns * depth)


def _max_pool_gradient(node: NodeView) -> Sequence[int]:
    """The pooling is repeated, to find the position of each maximum."""
    pooled = elements(input_shape(node, 1))
    return [pooled * item_bytes(node.input_dtype(1)), pooled * 8]


def _batch_norm(node: NodeView) -> Sequence[int]:
    return [node.input_bytes(0) or 0] * 2 if node.attribute("data_format", "NHWC") == "NCHW" else ()


def _batch_norm_gradient(node: NodeView) -> Sequence[int]:
    image = input_shape(node, 1)
    statistics = item_bytes(node.input_dtype(2))
    depth = elements(input_shape(node, 2))
    training = bool(node.attribute("is_training", True))
    sizes = [depth * statistics] * (1 if training else 2)
    sizes += partial_sums(elements(image) // max(depth, 1), depth, statistics)
    if node.input_dtype(1) != node.input_dtype(2):
        sizes.append(elements(image) * statistics)
    if node.attribute("data_format", "NHWC") == "NCHW":
        sizes += [node.input_bytes(1) or 0] * 3
    return sizes


def _loss_scratch(node: NodeView) -> Sequence[int]:
    return [output_shape(node, 0)[0] * item_bytes(node.output_dtype(0))]


def _resize_gradient(node: NodeView) -> Sequence[int]:
    return [elements(output_shape(node)) * 4] if node.output_dtype(0) in ("float16", "bfloat16") else ()


def _channel_means(node: NodeView) -> Sequence[int]:
    *outer, _, _, channels = input_shape(node, 0)
    return [elements(outer) * channels * 4]


def _brightest(node: NodeView) -> Sequence[int]:
    return [elements(input_shape(node, 0)[:-1]) * item_bytes(node.input_dtype(0))]


register("AdjustContrastv2", OpFact(temporaries=known(_channel_means)))
register("RGBToHSV", OpFact(temporaries=known(_brightest)))
register("Conv2D", OpFact(temporaries=known(_grouped)))
register("_FusedConv2D Conv3D _FusedConv3D", OpFact())
register("Conv2DBackpropFilter", OpFact(temporaries=known(_filter_gradient)))
register("Conv2DBackpropInput", OpFact(temporaries=known(_input_gradient)))
register("Conv3DBackpropFilter Conv3DBackpropFilterV2", OpFact(temporaries=known(_volume_filter_gradient)))
register("Conv3DBackpropInput Conv3DBackpropInputV2", OpFact(temporaries=known(_volume_input_gradient)))
register("DepthwiseConv2dNative", OpFact(temporaries=known(_depthwise)))
register("DepthwiseConv2dNativeBackpropInput", OpFact(temporaries=known(_depthwise_input_gradient)))
register("DepthwiseConv2dNativeBackpropFilter", OpFact(temporaries=known(_depthwise_filter_gradient)))
register("Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput", OpFact())

register(
    "MaxPool MaxPoolV2 MaxPoolWithArgmax MaxPool3D MaxPool3DGrad AvgPool AvgPool3D AvgPoolGrad AvgPool3DGrad", OpFact()
)
register("MaxPoolGrad MaxPoolGradV2", OpFact(forwards=((0, 0),), temporaries=known(_max_pool_gradient)))
register("MaxPoolGradGrad MaxPoolGradGradV2 MaxPool3DGradGrad", OpFact(forwards=((0, 2),)))
register("MaxPoolGradWithArgmax", OpFact(forwards=((0, 0),)))

register(
    "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3",
    OpFact(forwards=((1, 3), (2, 4)), temporaries=known(_batch_norm)),
)
register(
    "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3",
    OpFact(temporaries=known(_batch_norm_gradient)),
)
register("LRN LRNGrad", OpFact())
register(
    "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits",
    OpFact(forwards=((1, 0),), temporaries=known(_loss_scratch)),
)

register("ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea ScaleAndTranslate", OpFact())
register("ResizeBilinearGrad", OpFact(temporaries=known(_resize_gradient)))
register("ResizeNearestNeighborGrad ResizeBicubicGrad ScaleAndTranslateGrad", OpFact())
register("CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage", OpFact())
register("NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 AdjustHue AdjustSaturation", OpFact())
register("HSVToRGB ImageProjectiveTransformV2 ImageProjectiveTransformV3", OpFact())
register("CTCLoss CTCLossV2 CTCGreedyDecoder CTCBeamSearchDecoder", OpFact())
register("FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel", OpFact())
register("FakeQuantWithMinMaxArgs", OpFact(forwards=((0, 0),)))
register("FakeQuantWithMinMaxArgsGradient", OpFact(forwards=((0, 0), (0, 1))))
