"""Reductions: kernels merge neighbouring dimensions, and copy the input if more than three remain."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.facts.shapes import divide_up, elements, input_shape, input_values, item_bytes, known
from lowtide.program.graph import NodeView
from lowtide.program.machine import current_machine


def _reduced_runs(node: NodeView) -> list[tuple[int, bool]]:
    """Return (size, is reduced) of the dimensions after merging neighbours of one kind; sizes of 1 merge with any."""
    shape = input_shape(node, 0)
    axes = {axis % len(shape) for axis in input_values(node, 1)} if shape else set()
    runs: list[tuple[int, bool]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if runs and runs[-1][1] == (axis in axes):
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, axis in axes))
    return runs


def _nothing_to_reduce(node: NodeView) -> Sequence[tuple[int, int]]:
    runs = _reduced_runs(node)
    return [(0, 0)] if all(not reduced for _, reduced in runs) else []


def _transposed_copy(node: NodeView) -> Sequence[int]:
    """Up to three merged dimensions are reduced directly; more are transposed first, in a copy."""
    if len(_reduced_runs(node)) <= 3:
        return ()
    return [elements(input_shape(node, 0)) * item_bytes(node.input_dtype(0))]


def partial_sums(outer: int, inner: int, item: int) -> Sequence[int]:
    """Each thread has its own partial sum over outer dimensions if rows are short."""
    threads = current_machine().intra_op_threads
    if outer <= 1 or inner == 0 or inner > threads * 32:
        return ()
    # A thread gets at least 2000 elements.
    rows = divide_up(2000, inner)
    blocks = min(outer, divide_up(outer * inner, rows), threads)
    return [blocks * inner * item]


def _bias_gradient(node: NodeView) -> Sequence[int]:
    shape = input_shape(node, 0)
    item = 4 if node.input_dtype(0) == "float16" else item_bytes(node.input_dtype(0))
    if node.attribute("data_format", "NHWC") == "NCHW":
        return ()
    return partial_sums(elements(shape[:-1]), shape[-1], item)


register("BiasAddGrad", OpFact(temporaries=known(_bias_gradient)))
register(
    "All Any Max Mean Min Prod Sum",
    OpFact(aliases=known(_nothing_to_reduce), temporaries=known(_transposed_copy)),
)
register("EuclideanNorm", OpFact(temporaries=known(_transposed_copy)))
register("ArgMax ArgMin L2Loss Cumsum Cumprod CumulativeLogsumexp", OpFact())
register("SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum", OpFact())
register("UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum", OpFact())
register(
    """SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments
    SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad SparseSegmentMeanGrad
    SparseSegmentSqrtNGrad SparseSegmentSumGradV2 SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2""",
    OpFact(),
)
