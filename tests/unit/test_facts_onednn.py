"""Facts of oneDNN's ops, in exact numbers: the scratchpads by hand, and which outputs share a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.program.facts.catalog import fact_of
from lowtide.program.facts.convolution import Convolution
from lowtide.program.facts.onednn_convolution import scratchpad_bytes
from lowtide.program.facts.onednn_isa import VectorIsa, _of_limit, current_isa, use_isa
from lowtide.program.graph import NodeView
from lowtide.program.machine import Machine, current_machine, use_machine
from tests.unit.graphs import one_node

FLOAT32, UINT8, BFLOAT16 = 1, 4, 14
KIB = 1024


@pytest.fixture(autouse=True)
def two_threads_with_avx2() -> Iterator[None]:
    machine, isa = current_machine(), current_isa()
    use_machine(Machine(2, 2, 32 * KIB, 512 * KIB, 32 * KIB * KIB))
    use_isa(VectorIsa.AVX2)
    yield
    use_machine(machine)
    use_isa(isa)


def _node(
    op: str,
    inputs: list[tuple[int, ...] | None],
    outputs: list[tuple[int, ...] | None],
    dtype: int = FLOAT32,
    **attributes: Any,
) -> NodeView:
    shapes = [*inputs, *outputs]
    return one_node(op, len(inputs), [dtype] * len(shapes), shapes, attributes)


def _temporaries(node: NodeView) -> list[int]:
    fact = fact_of(node.op)
    assert fact is not None
    assert fact.temporaries is not None
    return list(fact.temporaries(node))


def _forwards(node: NodeView) -> list[tuple[int, int]]:
    fact = fact_of(node.op)
    assert fact is not None
    return list(fact.forwards(node) if callable(fact.forwards) else fact.forwards)


def _conv(batch: int, size: int, kernel: int, channels: tuple[int, int], **more: Any) -> NodeView:
    data, made = (batch, size, size, channels[0]), (batch, size, size, channels[1])
    attributes = {"strides": [1, 1, 1, 1], "dilations": [1, 1, 1, 1], "data_format": "NHWC"}
    return _node("_MklNativeConv2D", [data, (kernel, kernel, *channels)], [made], **(attributes | more))


def test_each_thread_lists_its_products_on_separate_pages() -> None:
    # 9 products of 40 bytes take a page, rounded up to whole products; the list starts at a page.
    assert _temporaries(_conv(4, 28, 3, (16, 32))) == [2 * 4120 + 4096]
    # 121 products take two pages.
    assert _temporaries(_conv(4, 28, 11, (16, 32))) == [2 * 8200 + 4096]


def test_a_tensor_of_a_few_kilobytes_uses_one_thread() -> None:
    assert _temporaries(_conv(4, 4, 3, (4, 4))) == [4120 + 4096]


def test_one_image_is_multiplied_as_a_matrix_of_patches() -> None:
    # The weights take more than half the cache, so all threads share one matrix: 256 channels, 9 taps, 14 x 14
    # places, and the transposed image; each with 128 bytes to align it.
    patches, image = 256 * 9 * 14 * 14 * 4, 256 * 14 * 14 * 4
    assert _temporaries(_conv(1, 14, 3, (256, 128))) == [patches + 128 + image + 128]
    # A pointwise convolution reads the image as the matrix that it is.
    assert _temporaries(_conv(1, 32, 1, (64, 10))) == [64 * 32 * 32 * 4 + 128]


def test_with_avx512_one_image_needs_no_patches() -> None:
    use_isa(VectorIsa.AVX512)
    assert _temporaries(_conv(1, 14, 3, (256, 128))) == [2 * 4120 + 4096]


def test_with_avx512_rows_of_a_single_channel_are_copied_side_by_side() -> None:
    use_isa(VectorIsa.AVX512)
    data, made = (4, 28, 28, 1), (4, 26, 26, 32)
    node = _node("_MklNativeConv2D", [data, (3, 3, 1, 32)], [made], strides=[1, 1, 1, 1], dilations=[1, 1, 1, 1])
    # Lists, 4096 copied numbers and a page of marks for each thread, and the weights: as oneDNN 3.7 states it.
    assert _temporaries(node) == [69680]


def test_with_amx_each_thread_has_a_buffer_for_tiles() -> None:
    use_isa(VectorIsa.AMX)
    data, made = (4, 56, 56, 64), (4, 56, 56, 256)
    strides = {"strides": [1, 1, 1, 1], "dilations": [1, 1, 1, 1]}
    node = _node("_MklNativeConv2D", [data, (1, 1, 64, 256)], [made], dtype=BFLOAT16, **strides)
    assert _temporaries(node) == [2 * 4120 + 4096 + 2 * 8192 + 4096]
    use_isa(VectorIsa.AVX512_BF16)
    assert _temporaries(node) == [2 * 4120 + 4096]
    # Without such instructions the sums of a whole image are kept in float32, for each thread.
    use_isa(VectorIsa.AVX512)
    assert _temporaries(node) == [2 * 56 * 56 * 256 * 4 + 128]


def test_a_depthwise_convolution_needs_nothing() -> None:
    node = _node("_MklNativeDepthwiseConv2dNative", [(4, 28, 28, 16), (3, 3, 16, 1)], [(4, 28, 28, 16)])
    assert _temporaries(node) == []


def test_an_unknown_shape_states_no_temporaries() -> None:
    node = _node("_MklNativeConv2D", [None, (3, 3, 16, 32)], [None], strides=[1, 1, 1, 1])
    assert _temporaries(node) == []


def test_a_fused_addition_happens_in_the_addend() -> None:
    shapes: list[tuple[int, ...] | None] = [(4, 8, 8, 16), (3, 3, 16, 16), (16,), (4, 8, 8, 16)]
    with_add = _node("_MklNativeFusedConv2D", shapes, [(4, 8, 8, 16)], fused_ops=["BiasAdd", "Add", "Relu"])
    without = _node("_MklNativeFusedConv2D", shapes[:3], [(4, 8, 8, 16)], fused_ops=["BiasAdd", "Relu"])
    assert _forwards(with_add) == [(0, 3)]
    assert _forwards(without) == []
    assert _forwards(_node("_MklSoftmax", [(8, 8)], [(8, 8)])) == [(0, 0)]


@pytest.mark.parametrize(("window", "bytes_each"), [(15, 1), (16, 4)])
def test_max_pooling_stores_a_position_in_the_window(window: int, bytes_each: int) -> None:
    node = _node("_MklNativeMaxPool", [(2, 32, 32, 20)], [(2, 16, 16, 20), None], ksize=[1, window, window, 1])
    assert fact_of(node.op).sizes(node) == {1: 2 * 16 * 16 * 20 * bytes_each}


def test_the_bias_gradient_has_the_output_channels() -> None:
    inputs: list[tuple[int, ...] | None] = [(8, 7, 7, 512), (4,), (8, 7, 7, 2048)]
    node = _node("_MklNativeConv2DBackpropFilterWithBias", inputs, [(1, 1, 512, 2048), (512,)], data_format="NHWC")
    assert fact_of(node.op).sizes(node) == {1: 2048 * 4}


def test_products_need_a_scratchpad_only_beyond_avx2() -> None:
    node = _node("_MklBatchMatMulV2", [(8, 64, 32), (8, 48, 32)], [(8, 64, 48)], adj_x=False, adj_y=True)
    assert _temporaries(node) == []
    use_isa(VectorIsa.AVX512)
    # A list of 16 products for each thread, and a block of the second operand: 64 columns, 32 deep.
    assert _temporaries(node) == [2 * 16 * 40 + 128 + 2 * 64 * 32 * 4 + 128]
    plain = _node("_MklBatchMatMulV2", [(8, 64, 32), (8, 32, 48)], [(8, 64, 48)], adj_x=False, adj_y=False)
    assert _temporaries(plain) == [2 * 16 * 40 + 128]
    first = _node("_MklBatchMatMulV2", [(8, 32, 64), (8, 32, 48)], [(8, 64, 48)], adj_x=True, adj_y=False)
    assert _temporaries(first) == [2 * 16 * 40 + 128 + 2 * 64 * 32 * 4 + 128]


def test_short_floats_are_summed_in_float32() -> None:
    node = _node("_MklNativeFusedMatMul", [(64, 128), (128, 256), (256,)], [(64, 256)], dtype=BFLOAT16)
    assert _temporaries(node) == [64 * 256 * 4 + 128]


@pytest.mark.parametrize(
    ("limit", "isa"),
    [
        ("", VectorIsa.AMX),
        ("SSE41", VectorIsa.AVX2),
        ("AVX2", VectorIsa.AVX2),
        ("AVX512_CORE_VNNI", VectorIsa.AVX512),
        ("AVX512_CORE_BF16", VectorIsa.AVX512_BF16),
        ("AVX512_CORE_AMX", VectorIsa.AMX),
    ],
)
def test_the_instructions_can_be_limited(limit: str, isa: VectorIsa) -> None:
    assert _of_limit(limit) is isa


SIZES = st.integers(1, 64)


@given(
    batch=st.integers(1, 8),
    channels=st.tuples(SIZES, SIZES),
    height=SIZES,
    width=SIZES,
    kernel=st.integers(1, 7),
    channels_last=st.booleans(),
    isa=st.sampled_from(VectorIsa),
)
def test_no_scratchpad_is_larger_than_onednn_allows(
    batch: int,
    channels: tuple[int, int],
    height: int,
    width: int,
    kernel: int,
    channels_last: bool,
    isa: VectorIsa,
) -> None:
    use_isa(isa)
    conv = Convolution(
        batch=batch,
        groups=1,
        channels_in=channels[0],
        channels_out=channels[1],
        extent_in=(height, width),
        extent_out=(height, width),
        kernel=(kernel, kernel),
        strides=(1, 1),
        dilations=(1, 1),
        item=4,
        channels_last=channels_last,
    )
    lists_and_blocks = 2 * (2 * 512 * KIB + 64 * KIB * 8)
    data = batch * sum(channels) * height * width + channels[0] * channels[1] * kernel**2
    assert 0 <= scratchpad_bytes(conv) <= lists_and_blocks + 15 * 2 * data * 4
