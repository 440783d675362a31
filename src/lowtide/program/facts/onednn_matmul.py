"""Scratchpads of oneDNN's matrix products.

With AVX2, no product of float32 matrices needs one: operands are packed in memory that oneDNN allocates from the
operating system. With AVX-512, blocks of the operands are packed in a scratchpad. The sizes follow the source of oneDNN
3.7 and were compared with those that oneDNN reports when it creates a primitive for such a processor. With AMX they are
estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from lowtide.program.facts.onednn_isa import VectorIsa, current_isa
from lowtide.program.facts.onednn_scratchpad import PAGE_BYTES, batch_bytes, booked
from lowtide.program.facts.shapes import divide_up, elements, input_shape, item_bytes, output_shape, round_up
from lowtide.program.graph import NodeView
from lowtide.program.machine import current_machine

_LISTED_BYTES = 16 * 40
_WIDEST_BLOCK = 64


@dataclass(frozen=True, slots=True)
class _MatrixProduct:
    """A batch of matrix products, and which of the two operands is stored transposed."""

    stack: int
    rows: int
    columns: int
    depth: int
    swaps: tuple[bool, bool]
    item: int

    @property
    def block_depth(self) -> int:
        return min(self.depth, 1024 if self.depth > 1024 and not self.swaps[0] else 512)


def _scratchpad(product: _MatrixProduct) -> int:
    """Return the bytes of the packed blocks of the operands, per thread, that cannot be read in place."""
    isa, threads = current_isa(), current_machine().intra_op_threads
    if isa is VectorIsa.AVX2 or 0 in (product.stack, product.rows, product.columns, product.depth):
        return 0
    item = product.item
    if item == 2 and isa is VectorIsa.AVX512:
        return booked(min(threads, product.stack) * product.rows * product.columns * 4)
    narrow = _is_narrow(product, threads)
    block_columns = min(product.columns, 32 if narrow else _WIDEST_BLOCK)
    packed_columns = block_columns if block_columns < product.columns else _WIDEST_BLOCK
    copies_left = product.swaps[0] and product.rows > 1
    block_rows = _block_rows(product, threads, block_columns, copies_left)
    line = 64 // item
    total = booked(threads * _LISTED_BYTES)
    if copies_left:
        depth = round_up(product.block_depth, line)
        depth += line if depth >= 512 and depth & (depth - 1) == 0 else 0
        total += booked(threads * block_rows * depth * item)
    if _copies_right(product, narrow):
        total += booked(threads * packed_columns * round_up(product.block_depth, 16 if item == 4 else 32) * item)
    if item == 2 and product.depth % product.block_depth + (product.depth > product.block_depth):
        total += booked(threads * block_rows * block_columns * 4)
    if item == 2 and isa is VectorIsa.AMX:
        total += booked(threads * PAGE_BYTES)
    return total


def _is_narrow(product: _MatrixProduct, threads: int) -> bool:
    """Whether blocks are made smaller because there are fewer of them than threads."""
    few = threads > product.stack * divide_up(product.columns, min(product.columns, _WIDEST_BLOCK))
    return few and (product.rows <= 40 or (product.swaps[0] and product.rows <= 512))


def _copies_right(product: _MatrixProduct, narrow: bool) -> bool:
    if product.item == 2:
        return True
    if product.swaps[1]:
        return product.columns > 1
    is_power_of_two = product.columns & (product.columns - 1) == 0
    return product.columns > 256 and is_power_of_two and not (narrow and not product.swaps[0])


@lru_cache(maxsize=4096)
def _block_rows(product: _MatrixProduct, threads: int, block_columns: int, copies_left: bool) -> int:
    """Return the number of rows in a block that divides the work most evenly, the largest of equally good ones.

    Cached, because a model has many products of the same few shapes.
    """
    rows, blocks = product.rows, divide_up(product.columns, block_columns)
    few = threads > product.stack * blocks
    smallest = min(rows, 16 if few else 32)
    best, best_rows = 1.0, None
    for chunk in range(min(16 if copies_left else 1, blocks), 0, -1):
        chunks = divide_up(blocks, chunk)
        for size in range(min(rows, 256), smallest - 1, -1):
            work = divide_up(rows, size) * chunks * product.stack
            if work < threads * 3 and work % threads:
                continue
            score = _unevenness(work, threads) + (size * divide_up(rows, size)) % rows / rows
            score += (chunks * chunk - blocks) / blocks + _unevenness(product.depth, product.block_depth)
            if score / 5 < best - 1e-9:
                best, best_rows = score / 5, size
    return smallest if best_rows is None else best_rows


def _unevenness(work: int, share: int) -> float:
    left = work % share
    return (share - left if work < share else min(share - left, left)) / share


def batch_product_temporaries(node: NodeView) -> Sequence[int]:
    """Return the scratchpad of a product of batches of matrices."""
    left, result = input_shape(node, 0), output_shape(node)
    swaps = (bool(node.attribute("adj_x")), bool(node.attribute("adj_y")))
    depth = left[-2] if swaps[0] else left[-1]
    rows, columns = result[-2:]
    product = _MatrixProduct(elements(result[:-2]), rows, columns, depth, swaps, item_bytes(node.input_dtype(0)))
    size = _scratchpad(product)
    return [size] if size else []


def product_temporaries(node: NodeView) -> Sequence[int]:
    """Return the scratchpad of a product of two matrices; float32 uses a routine without one."""
    item = item_bytes(node.input_dtype(0))
    if item != 2:
        return ()
    left, result = input_shape(node, 0), output_shape(node)
    swaps = (bool(node.attribute("transpose_a")), bool(node.attribute("transpose_b")))
    depth = left[0] if swaps[0] else left[1]
    rows, columns = result[-2:]
    size = _scratchpad(_MatrixProduct(1, rows, columns, depth, swaps, item))
    return [size] if size else []


def fused_product_temporaries(node: NodeView) -> Sequence[int]:
    """Return the scratchpad of a product with bias and activation: the sums of 16-bit floats in float32.

    Constant weights are stored in blocks, and the product is then a batch of small products.
    """
    size = 0
    if node.attribute("is_weight_const") or node.attribute("is_filter_const"):
        size = booked(current_machine().intra_op_threads * batch_bytes(1))
    elif item_bytes(node.output_dtype(0)) == 2:
        size = booked(elements(output_shape(node)) * 4)
    return [size] if size else []
