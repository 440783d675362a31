"""Ops that move, split and join arrays: views where the bytes stay in place, copies elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.facts.shapes import (
    elements,
    input_shape,
    input_values,
    item_bytes,
    known,
    output_shape,
    rows_are_aligned,
    slice_is_aligned,
)
from lowtide.program.graph import NodeView
from lowtide.program.machine import current_machine

Pair = tuple[int, int]


def _each(node: NodeView) -> Sequence[Pair]:
    return [(index, index) for index in range(node.output_count)]


def _if_shape_stays(node: NodeView) -> Sequence[Pair]:
    return [(0, 0)] if input_shape(node, 0) == output_shape(node) else []


def _if_elements_stay(node: NodeView) -> Sequence[Pair]:
    return [(0, 0)] if elements(input_shape(node, 0)) == elements(output_shape(node)) else []


def _transpose(node: NodeView) -> Sequence[Pair]:
    """A transpose that keeps the order of the dimensions larger than 1 is a view."""
    shape = input_shape(node, 0)
    if len(shape) < 2:
        return [(0, 0)]
    order = [axis % len(shape) for axis in input_values(node, 1)]
    moved = [axis for axis in order if shape[axis] != 1]
    return [(0, 0)] if moved == sorted(moved) else []


def _split(node: NodeView, data: int, axis_input: int) -> Sequence[Pair]:
    shape = input_shape(node, data)
    count = node.output_count
    if count == 1:
        return [(0, data)]
    (axis,) = input_values(node, axis_input)
    if axis % len(shape) != 0 or not _parts_are_aligned(node, shape, count):
        return []
    return [(index, data) for index in range(count)]


def _parts_are_aligned(node: NodeView, shape: Sequence[int], count: int) -> bool:
    """Split checks the alignment of rows; SplitV that of each part, because parts of a vector may start anywhere."""
    item = item_bytes(node.output_dtype(0))
    if node.op == "Split":
        return rows_are_aligned(shape, item)
    start = 0
    for index in range(count):
        stop = start + output_shape(node, index)[0]
        if not slice_is_aligned(shape, item, start, stop):
            return False
        start = stop
    return True


def _unpack(node: NodeView) -> Sequence[Pair]:
    shape = input_shape(node, 0)
    axis = node.attribute("axis", 0) % len(shape)
    aligned = rows_are_aligned(shape, item_bytes(node.input_dtype(0)))
    return [(index, 0) for index in range(node.output_count)] if axis == 0 and aligned else []


def _pack(node: NodeView) -> Sequence[Pair]:
    return [(0, 0)] if node.input_count == 1 else []


def _slice(node: NodeView) -> Sequence[Pair]:
    shape, result = input_shape(node, 0), output_shape(node)
    if shape == result:
        return [(0, 0)]
    if shape[1:] != result[1:]:
        return []
    item = item_bytes(node.input_dtype(0))
    if len(shape) > 1:
        return [(0, 0)] if rows_are_aligned(shape, item) else []
    # For a vector the kernel checks the alignment of the start and of the size.
    return [(0, 0)] if slice_is_aligned(shape, item, input_values(node, 1)[0], result[0]) else []


def _strided_ranges(node: NodeView) -> list[tuple[int, int, int]]:
    """(begin, end, stride) of each dimension of the input, masks and ellipsis resolved."""
    shape = input_shape(node, 0)
    begins, ends, strides = (input_values(node, index) for index in (1, 2, 3))
    masks = {key: int(node.attribute(key, 0)) for key in _MASKS}
    ranges: list[tuple[int, int, int]] = []
    entries = range(len(begins))
    added = sum(masks["new_axis_mask"] >> entry & 1 for entry in entries)
    for entry in entries:
        bit = 1 << entry
        if masks["ellipsis_mask"] & bit:
            hidden = len(shape) - (len(begins) - 1 - added)
            ranges += [(0, size, 1) for size in shape[len(ranges) : len(ranges) + hidden]]
        elif not masks["new_axis_mask"] & bit:
            size, stride = shape[len(ranges)], strides[entry]
            if masks["shrink_axis_mask"] & bit:
                begin = begins[entry] % size if size else 0
                ranges.append((begin, begin + 1, 1))
                continue
            low, high = (0, size) if stride > 0 else (-1, size - 1)
            begin = _clamp(begins[entry], size, low, high)
            end = _clamp(ends[entry], size, low, high)
            if masks["begin_mask"] & bit:
                begin = low if stride > 0 else high
            if masks["end_mask"] & bit:
                end = high if stride > 0 else low
            ranges.append((begin, end, stride))
    return ranges + [(0, size, 1) for size in shape[len(ranges) :]]


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _clamp(index: int, size: int, low: int, high: int) -> int:
    return min(max(index + size if index < 0 else index, low), high)


def _strided_slice(node: NodeView) -> Sequence[Pair]:
    shape = input_shape(node, 0)
    if node.input_value(1) is None or node.input_value(2) is None:
        return [(0, 0)] if _takes_rows(node, shape) else []
    ranges = _strided_ranges(node)
    whole = [span == (0, size, 1) for span, size in zip(ranges, shape, strict=True)]
    if all(whole):
        return [(0, 0)]
    begin, end, stride = ranges[0]
    is_rows = stride == 1 and all(whole[1:])
    if is_rows and slice_is_aligned(shape, item_bytes(node.input_dtype(0)), begin, end):
        return [(0, 0)]
    return []


def _takes_rows(node: NodeView, shape: Sequence[int]) -> bool:
    """Whether a slice with bounds that are computed at run time, as in a loop, always consists of aligned rows."""
    strides = input_values(node, 3)
    open_ends = int(node.attribute("begin_mask", 0)) & int(node.attribute("end_mask", 0))
    plain = not (node.attribute("ellipsis_mask", 0) or node.attribute("new_axis_mask", 0))
    others_whole = all(open_ends >> entry & 1 and strides[entry] == 1 for entry in range(1, len(strides)))
    is_rows = plain and others_whole and strides[:1] == [1] and len(shape) > 1
    return is_rows and rows_are_aligned(shape, item_bytes(node.input_dtype(0)))


def _reverse_of_scalar(node: NodeView) -> Sequence[Pair]:
    return [(0, 0)] if input_shape(node, 0) == () else []


def _whole_input(node: NodeView) -> Sequence[int]:
    return [elements(input_shape(node, 0)) * item_bytes(node.input_dtype(0))]


def _merged_paddings(node: NodeView) -> Sequence[int]:
    """Return the bytes of the paddings after unpadded neighbouring dimensions are merged."""
    rank = len(input_shape(node, 0))
    return [2 * rank * item_bytes(node.input_dtype(1))] if rank > 1 and not _if_elements_stay(node) else ()


def _bins_per_thread(node: NodeView) -> Sequence[int]:
    """Each thread has its own bins, and so has the caller."""
    counted = elements(output_shape(node)) * item_bytes(node.output_dtype(0))
    return [1, (current_machine().intra_op_threads + 1) * counted]


_VIEWS = """
    Identity Reshape Squeeze ExpandDims StopGradient PreventGradient RefIdentity EnsureShape DebugGradientIdentity
    GuaranteeConst PlaceholderWithDefault _EagerConst
"""
register(_VIEWS, OpFact(aliases=((0, 0),), cheap=True))
register("CheckNumerics CheckNumericsV2", OpFact(aliases=((0, 0),)))
register("Bitcast", OpFact(aliases=((0, 0),), temporaries=lambda node: [item_bytes(node.input_dtype(0))]))
register("IdentityN", OpFact(aliases=_each, cheap=True))
register("Transpose", OpFact(aliases=known(_transpose)))
register("ConjugateTranspose InvertPermutation", OpFact())
register("Split", OpFact(aliases=known(lambda node: _split(node, 1, 0))))
register("SplitV", OpFact(aliases=known(lambda node: _split(node, 0, 2))))
register("Unpack", OpFact(aliases=known(_unpack)))
register("Pack", OpFact(aliases=_pack))
register("Slice", OpFact(aliases=known(_slice)))
register("StridedSlice", OpFact(aliases=known(_strided_slice)))
register("StridedSliceGrad", OpFact())
register("TensorStridedSliceUpdate", OpFact(forwards=((0, 0),)))
register("Concat ConcatV2 ParallelConcat", OpFact())
register("Pad PadV2", OpFact(aliases=known(_if_elements_stay), temporaries=known(_merged_paddings)))
register("MirrorPad", OpFact(aliases=known(_if_elements_stay)))
register("MirrorPadGrad", OpFact(aliases=known(_if_elements_stay), temporaries=known(_whole_input)))
register("Tile BroadcastTo", OpFact(aliases=known(_if_shape_stays)))
register("Reverse ReverseV2", OpFact(aliases=known(_reverse_of_scalar)))
register("ReverseSequence Roll", OpFact())

register("Shape ShapeN Size Rank ConcatOffset BroadcastArgs BroadcastGradientArgs", OpFact(cheap=True))
register("Fill Range LinSpace OneHot Empty TileGrad UnravelIndex DataFormatVecPermute DataFormatDimMap", OpFact())
register("Gather GatherV2", OpFact())
register("GatherNd", OpFact(temporaries=lambda node: [4]))
register("ScatterNd ScatterNdNonAliasingAdd", OpFact())
# These try to reuse their input's buffer in a way that never succeeds on the CPU, so they always copy it.
register("TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate", OpFact())
register("DynamicPartition DynamicStitch ParallelDynamicStitch", OpFact())
register("Where Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 ListDiff", OpFact())
register("TopK TopKV2 InTopK InTopKV2 NthElement", OpFact())
register("Bincount DenseBincount", OpFact(temporaries=known(_bins_per_thread)))
register("HistogramFixedWidth", OpFact(temporaries=known(lambda node: [4 * elements(input_shape(node, 0))])))
register("LowerBound UpperBound Bucketize", OpFact())
register(
    """SpaceToBatch SpaceToBatchND BatchToSpace BatchToSpaceND SpaceToDepth DepthToSpace
    ExtractImagePatches ExtractVolumePatches""",
    OpFact(),
)
register("SparseToDense SparseReshape SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReorder SparseSlice", OpFact())
register("RaggedRange RaggedTensorToTensor RaggedTensorToSparse RaggedGather", OpFact())
register("FFT FFT2D FFT3D IFFT IFFT2D IFFT3D RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D", OpFact())
