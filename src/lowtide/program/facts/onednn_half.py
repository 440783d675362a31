"""Scratchpads of oneDNN's forward convolutions of bfloat16 and float16, which exist with AVX-512 and AMX only.

They follow the source of oneDNN 3.7, and were compared with the sizes that oneDNN reports when it creates a primitive
for such a processor. With bfloat16 instructions, five in six of 300 agreed to the byte and the others were too small,
by up to 15 KiB per thread. Where bfloat16 is emulated, the float32 images are within 3% unless the image is tiny. With
AMX, the block that a thread copies is an estimate: half of them are within 40%, and some are wrong by several times.
"""

from __future__ import annotations

from lowtide.program.facts.convolution import Convolution
from lowtide.program.facts.onednn_isa import VectorIsa
from lowtide.program.facts.onednn_scratchpad import PAGE_BYTES, batch_bytes, booked
from lowtide.program.facts.shapes import divide_up, elements, round_up
from lowtide.program.machine import current_machine

_TILE_BUFFER_BYTES = 2 * PAGE_BYTES
_TILE_DEPTH = 32  # numbers of two bytes in a row of an AMX tile
_CHANNEL_BLOCK = 32


def half_scratchpad(conv: Convolution, isa: VectorIsa, threads: int) -> int:
    """Return the bytes of the scratchpad of a convolution of two-byte floats."""
    if isa is VectorIsa.AVX512:
        return _emulated(conv, current_machine().intra_op_threads)
    lists = booked(threads * batch_bytes(conv.taps), PAGE_BYTES)
    if isa is not VectorIsa.AMX:
        return lists
    tiles = booked(threads * _TILE_BUFFER_BYTES, PAGE_BYTES)
    return lists + tiles + (_pointwise_copy(conv, threads) if conv.taps == 1 else _block_copy(conv, threads))


def _emulated(conv: Convolution, threads: int) -> int:
    """Without bfloat16 instructions, a pointwise convolution has a float32 image per thread."""
    if conv.taps > 1:
        return 0
    area = elements(conv.extent_out)
    sums = booked(threads * area * round_up(conv.channels_out, 16) * 4)
    is_strided = set(conv.strides) != {1}
    return sums + (booked(threads * area * conv.channels_in * conv.item) if is_strided else 0)


def _pointwise_copy(conv: Convolution, threads: int) -> int:
    """A copy of the image without the positions that the strides skip, or with channels padded to full tiles."""
    strided = set(conv.strides[:-1]) - {1} or conv.extent_in[-1] % conv.strides[-1]
    padded = round_up(conv.channels_in, 2)
    if not strided and padded == conv.channels_in:
        return 0
    copy = round_up(elements(conv.extent_out) * padded, 64) * conv.item
    return booked(threads * copy, PAGE_BYTES) + booked(threads * 64, PAGE_BYTES)


def _block_copy(conv: Convolution, threads: int) -> int:
    """A copy of the padded input of one thread's block of output rows."""
    width = (conv.extent_out[-1] - 1) * conv.strides[-1] + (conv.kernel[-1] - 1) * conv.dilations[-1] + 1
    reach = (conv.kernel[-2] - 1) * conv.dilations[-2] + 1
    is_padded = width > conv.extent_in[-1]
    fills_tiles = conv.channels_in % (2 if conv.channels_in <= _TILE_DEPTH else _TILE_DEPTH) == 0
    if not is_padded and fills_tiles and conv.extent_out[-1] > 50:
        return 0
    block = _block_rows(conv, threads, width)
    padding = max((conv.extent_out[-2] - 1) * conv.strides[-2] + reach - conv.extent_in[-2], 0)
    rows = (block - 1) * conv.strides[-2] + reach + padding
    places = block * width - conv.kernel[-1] + 1
    rows = divide_up(round_up(rows * width, max(places, 1)), width) + conv.kernel[-2] * conv.dilations[-2]
    depth = conv.kernel[0] if len(conv.kernel) == 3 else 1
    copy = round_up(depth * rows * width * _filled(conv.channels_in), PAGE_BYTES) * conv.item
    return booked(threads * copy, PAGE_BYTES) + booked(threads * PAGE_BYTES, PAGE_BYTES)


def _filled(channels: int) -> int:
    return round_up(channels, 2 if channels <= _TILE_DEPTH else _TILE_DEPTH)


def _block_rows(conv: Convolution, threads: int, width: int) -> int:
    """Return the output rows in a block: as many as fit into the caches and keep all threads busy."""
    machine = current_machine()
    second_level = machine.l2_cache_bytes * 3 // 4
    height, made = conv.extent_out[-2], min(round_up(conv.channels_out, 16), _CHANNEL_BLOCK)
    row = 4 * conv.channels_in * width + 2 * conv.extent_out[-1] * made
    weights = 2 * conv.taps * conv.channels_in * made + 4 * 32 * made
    available = min(divide_up(second_level, 2), max(second_level - weights, 0))
    fits = conv.extent_in[-2] * row <= available
    block = height if fits else min(max(available // row, 1), height)
    first_level_row = 2 * conv.channels_in * width + 2 * conv.extent_out[-1] * made
    start = min(max(machine.l1_cache_bytes // first_level_row, 1), height)
    if first_level_row >= machine.l1_cache_bytes:
        start = block
    good = (n for n in range(start, 0, -1) if height / round_up(height, n) > 0.9 and n * width > 128)
    block = next(good, block)
    sharing = divide_up(threads, conv.batch * divide_up(conv.channels_out, made))
    return max(min(block, divide_up(height, sharing)), 1)
