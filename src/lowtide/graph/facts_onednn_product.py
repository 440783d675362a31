"""Scratchpads of oneDNN's products of matrices.

With AVX2 no product of float32 matrices needs one: operands are packed in memory that oneDNN takes from the
system. The branches for AVX-512 and AMX follow the source of oneDNN 3.7 and were not run.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.graph.facts_onednn_isa import VectorIsa, current_isa
from lowtide.graph.facts_onednn_scratchpad import PAGE_BYTES, batch_bytes, booked, round_up
from lowtide.graph.facts_shapes import elements, input_shape, item_bytes, output_shape
from lowtide.graph.graph import NodeView
from lowtide.graph.machine import current_machine

_BLOCK_ROWS = 256
_BLOCK_COLUMNS = 64
_LISTED_PRODUCTS = 16


def _product_scratchpad(rows: int, columns: int, depth: int, swaps: tuple[bool, bool], item: int) -> int:
    """Packed blocks of the operands, for each thread, where the multiplication cannot read them in place."""
    isa = current_isa()
    if isa is VectorIsa.AVX2 or 0 in (rows, columns, depth):
        return 0
    threads = current_machine().intra_op_threads
    total = booked(threads * _LISTED_PRODUCTS * 40)
    block_rows, block_columns = min(rows, _BLOCK_ROWS), min(round_up(columns, 16), _BLOCK_COLUMNS)
    block_depth = round_up(min(depth, 1024 if depth > 1024 and not swaps[0] else 512), 64 // item)
    is_power_of_two = columns & (columns - 1) == 0
    if swaps[0]:
        total += booked(threads * block_rows * block_depth * item)
    if swaps[1] or item == 2 or (columns > 256 and is_power_of_two):
        total += booked(threads * block_columns * block_depth * item)
    if item == 2 and depth > block_depth:
        total += booked(threads * block_rows * block_columns * 4)
    if item == 2 and isa is VectorIsa.AMX:
        total += booked(threads * 2 * PAGE_BYTES)
    return total


def batch_product_temporaries(node: NodeView) -> Sequence[int]:
    """A product of stacks of matrices."""
    left, result = input_shape(node, 0), output_shape(node)
    swaps = (bool(node.attribute("adj_x")), bool(node.attribute("adj_y")))
    depth = left[-2] if swaps[0] else left[-1]
    size = _product_scratchpad(result[-2], result[-1], depth, swaps, item_bytes(node.input_dtype(0)))
    return [size] if size else []


def product_temporaries(node: NodeView) -> Sequence[int]:
    """Of two float32 matrices: none, by the plain multiplication routine. Shorter floats take the general way."""
    item = item_bytes(node.input_dtype(0))
    if item != 2:
        return ()
    left, result = input_shape(node, 0), output_shape(node)
    swaps = (bool(node.attribute("transpose_a")), bool(node.attribute("transpose_b")))
    depth = left[0] if swaps[0] else left[1]
    size = _product_scratchpad(result[-2], result[-1], depth, swaps, item)
    return [size] if size else []


def fused_product_temporaries(node: NodeView) -> Sequence[int]:
    """A product with bias and activation: sums of shorter floats are kept whole in float32.

    Weights that are constant are kept in blocks, and the product is then made of small ones.
    """
    size = 0
    if node.attribute("is_weight_const") or node.attribute("is_filter_const"):
        size = booked(current_machine().intra_op_threads * batch_bytes(1))
    elif item_bytes(node.output_dtype(0)) == 2:
        size = booked(elements(output_shape(node)) * 4)
    return [size] if size else []
