"""Scratchpads of oneDNN's forward convolutions, the only convolutions whose scratchpad TensorFlow allocates.

Backward convolutions, and the copies of weights in blocked layouts, use memory that oneDNN allocates from the operating
system, outside TensorFlow's allocator. The choice of the implementation follows the source of oneDNN 3.7. For AVX2 the
sizes are checked by running single ops; for AVX-512 they were compared with the sizes that oneDNN reports when it
creates a primitive for such a processor, which needs no execution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lowtide.program.facts.convolution import Convolution, read_convolution
from lowtide.program.facts.onednn_half import half_scratchpad
from lowtide.program.facts.onednn_isa import VectorIsa, current_isa
from lowtide.program.facts.onednn_scratchpad import PAGE_BYTES, batch_bytes, booked
from lowtide.program.facts.shapes import divide_up, elements, round_up
from lowtide.program.graph import NodeView
from lowtide.program.machine import current_machine

# Below this size of input and output, oneDNN splits the work by blocks of channels only.
_SMALL_TENSOR_BYTES = 8 * 1024
_LARGEST_CHANNEL_BLOCKS = 4  # vectors in a block of output channels


def scratchpad_bytes(conv: Convolution) -> int:
    """Return the bytes of the scratchpad of a forward convolution."""
    isa = current_isa()
    if conv.is_depthwise or not (conv.batch and elements(conv.extent_out)):
        return 0
    # A single image is convolved with the weights in TensorFlow's layout. Before AVX-512, only the implementation with
    # a matrix of patches can do that.
    with_plain_weights = conv.batch == 1 and conv.is_flat and conv.groups == 1
    if not conv.channels_last:
        return 0 if with_plain_weights else _if_allowed(conv, _patches_channels_first(conv, isa))
    if with_plain_weights and isa < VectorIsa.AVX512:
        return _if_allowed(conv, _patches_channels_last(conv, isa))
    if conv.groups > 1 and conv.channels_in <= isa.float32_lanes and isa in (VectorIsa.AVX512, VectorIsa.AVX512_BF16):
        return 0
    return _small_products(conv, isa, with_plain_weights)


def _if_allowed(conv: Convolution, size: int) -> int:
    """Return the size, or 0 where it is so large that oneDNN uses its slow reference implementation."""
    limit = min(1 << 30, 15 * current_machine().intra_op_threads * _tensor_bytes(conv))
    return size if size <= limit else 0


def _tensor_bytes(conv: Convolution) -> int:
    weights = conv.groups * conv.channels_in * conv.channels_out * conv.taps * conv.item
    return _input_bytes(conv) + weights + _output_bytes(conv)


def _input_bytes(conv: Convolution) -> int:
    return conv.batch * conv.groups * conv.channels_in * elements(conv.extent_in) * conv.item


def _output_bytes(conv: Convolution) -> int:
    return conv.batch * conv.groups * conv.channels_out * elements(conv.extent_out) * conv.item


def _small_products(conv: Convolution, isa: VectorIsa, with_plain_weights: bool) -> int:
    """Convolution as batches of small products: each thread has a list of the products of one output block."""
    threads = _threads(conv, isa)
    if conv.item == 2:
        return half_scratchpad(conv, isa, threads)
    lists = booked(threads * batch_bytes(conv.taps), PAGE_BYTES)
    if isa is VectorIsa.AVX2 or conv.channels_in > 1 or not conv.is_flat or with_plain_weights:
        return lists
    return lists + _single_channel(conv, threads)


def _threads(conv: Convolution, isa: VectorIsa) -> int:
    threads = current_machine().intra_op_threads
    if max(_input_bytes(conv), _output_bytes(conv)) >= _SMALL_TENSOR_BYTES:
        return threads
    vectors = divide_up(conv.channels_out, isa.float32_lanes)
    blocks = divide_up(vectors, min(vectors, _LARGEST_CHANNEL_BLOCKS))
    useful = max(conv.groups, blocks)
    return useful if useful < threads else threads


def _single_channel(conv: Convolution, threads: int) -> int:
    """With one input channel, AVX-512 copies rows of the input next to each other, to fill the vectors."""
    (height, width), (stride_down, stride) = conv.kernel, conv.strides
    padded_width = (conv.extent_out[1] - 1) * stride + width
    padding = max((conv.extent_out[0] - 1) * stride_down + height - conv.extent_in[0], 0)
    is_padded = padded_width > conv.extent_in[1]
    shared = math.gcd(width, stride, conv.extent_in[1])
    if set(conv.dilations) != {1} or max(height, width) == 1 or (shared > 1 and not is_padded):
        return 0
    if height > 1 and conv.extent_out[1] > 4:
        step = height * stride
        copy = height * (height + padding) * padded_width * step
        copy += (conv.extent_out[0] - 1) * stride_down * step + step
    else:
        copy = (height + padding) * padded_width * stride
    copied = round_up(copy, PAGE_BYTES) * conv.item
    weights = round_up(round_up(conv.channels_out, 16) * conv.taps, 1024) * conv.item
    return booked(threads * copied, PAGE_BYTES) + booked(threads * PAGE_BYTES, PAGE_BYTES) + booked(weights, PAGE_BYTES)


def _patches_channels_last(conv: Convolution, isa: VectorIsa) -> int:
    """A matrix of patches and a transposed input, shared by all threads or one per thread."""
    patches = 0 if conv.is_pointwise else conv.channels_in * conv.taps * elements(conv.extent_out[-2:])
    threads = current_machine().intra_op_threads
    splits = False
    cache_items = current_machine().l2_cache_bytes // 4
    weights = conv.channels_in * conv.channels_out * elements(conv.kernel[-2:])
    if patches and set(conv.dilations) == {1} and weights < cache_items // 2:
        block = _output_block(conv, threads, cache_items, isa.float32_lanes)
        if block is not None:
            splits = True
            patches = conv.channels_in * conv.taps * elements(block)
    copies = threads if splits else 1
    image = elements(conv.extent_in) * conv.channels_in
    return booked(copies * patches * conv.item) + booked(copies * image * conv.item)


def _output_block(conv: Convolution, threads: int, cache_items: int, lanes: int) -> tuple[int, int] | None:
    """Return the rows and columns of the output in one thread's block; None if threads share one product instead."""
    height, width = conv.extent_out
    work = conv.groups * conv.batch
    block_rows, block_columns = _cache_block(conv, cache_items, lanes)
    balance = 0.0
    if block_columns == width:
        while block_rows > 0:
            balance = _balance(work * divide_up(height, block_rows), threads, height, block_rows)
            if balance >= 0.9:
                break
            block_rows = 0 if block_rows < 4 else (block_rows - 4) // 4 * 4
    if balance < 0.9:
        block_rows = 1
        while block_columns > 0:
            balance = _balance(work * height * divide_up(width, block_columns), threads, width, block_columns)
            if balance > 0.9:
                break
            block_columns = 0 if block_columns < lanes else (block_columns - lanes) // lanes * lanes
    block_rows, block_columns = max(block_rows, 1), max(block_columns, 1)
    inner = divide_up(height * width, lanes) * divide_up(conv.channels_out, lanes)
    if balance < inner / round_up(inner, threads) / 2:
        return None
    return block_rows, (block_columns if block_rows == 1 else width)


def _cache_block(conv: Convolution, cache_items: int, lanes: int) -> tuple[int, int]:
    """Return the largest block whose patches fit into the cache."""
    height, width = conv.extent_out
    inputs, outputs = conv.channels_in, conv.channels_out
    row = inputs * width * conv.taps + 2 * (inputs * conv.extent_in[1] + outputs * width)
    row = (row * 5 + outputs * width + inputs * conv.extent_in[1]) * conv.item
    rows, columns = min(divide_up(cache_items, row), height), width
    if rows == 1:
        column = (inputs * conv.taps + 2 * (inputs + outputs)) * conv.item
        columns = min(divide_up(cache_items, column), width)
    if rows != height:
        rows = max(rows // 4 * 4, 1)
    if columns != width:
        columns = max(columns // lanes * lanes, 1)
    return rows, columns


def _balance(work: int, threads: int, length: int, block: int) -> float:
    # Rounded like single precision, so that the comparison with 0.9 does not depend on rounding errors.
    return round((work / round_up(work, threads) + length / round_up(length, block)) / 2, 6)


def _patches_channels_first(conv: Convolution, isa: VectorIsa) -> int:
    """Blocks of the matrix of patches, one per thread, that fit into the cache (an estimate)."""
    if conv.is_pointwise:
        return 0
    threads = current_machine().intra_op_threads
    area = elements(conv.extent_out[-2:])
    positions = conv.batch * conv.groups * elements(conv.extent_out)
    inputs, outputs, taps = conv.channels_in, conv.channels_out, conv.taps
    if not conv.is_flat or (positions < threads * isa.float32_lanes and area >= conv.batch * conv.groups):
        copies = threads if area // threads < 512 and conv.batch != 1 else 1
        return booked(copies * inputs * taps * area * conv.item)
    cache_items = current_machine().l2_cache_bytes // conv.item
    grown = elements(conv.strides) + taps
    fitting = (cache_items - taps * outputs * inputs) // (grown * inputs + outputs)
    block = min(max(fitting, isa.float32_lanes), divide_up(positions, threads), area)
    channels = inputs
    if fitting < isa.float32_lanes:
        channels = max(1, min(inputs, cache_items // (2 * 8 * grown + 2 * taps * outputs)))
    if 48 <= block < min(divide_up(positions, threads), area):
        block = block // 48 * 48
    return booked(threads * channels * taps * block * conv.item)


def convolution_temporaries(node: NodeView) -> Sequence[int]:
    """Return the scratchpad of a forward convolution, if it has one."""
    size = scratchpad_bytes(read_convolution(node, is_depthwise=False))
    return [size] if size else []


def depthwise_temporaries(node: NodeView) -> Sequence[int]:
    """Return the scratchpad of a forward depthwise convolution, if it has several output channels per input channel."""
    size = scratchpad_bytes(read_convolution(node, is_depthwise=True))
    return [size] if size else []
