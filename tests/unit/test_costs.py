"""Estimated durations: which kernel takes longer than another."""

import pytest

from lowtide.simulator.costs import FILTER_BYTES_PER_US
from tests.unit.graphs import make_work


def cost(line, *arguments):
    text = "\n".join(f"x{index} = _Arg() {argument}" for index, argument in enumerate(arguments))
    work = make_work(f"{text}\ny = {line}")
    return work.cost_us[len(arguments)]


def test_passing_a_buffer_on_takes_no_time():
    assert cost("Reshape(x0, x1) [1000]", "[10,100]", "int32[1]") == 0.0


def test_bytes_take_time_and_slow_kernels_more():
    fast = cost("Mul(x0, x0) [1000000]", "[1000000]")
    assert cost("Mul(x0, x0) [2000000]", "[2000000]") == 2 * fast
    assert cost("Softmax(x0) [1000000]", "[1000000]") > 2 * fast


def test_a_transposed_operand_is_packed_slowly():
    plain = cost("MatMul(x0, x1) [32,1024]", "[32,1024]", "[1024,1024]")
    turned = cost("MatMul(x0, x1) [32,1024] transpose_b=True", "[32,1024]", "[1024,1024]")
    assert turned > 3 * plain


def test_the_filter_gradient_of_few_channels_takes_longer_than_its_arithmetic():
    images, few, sizes = "[16,96,96,32]", "[16,96,96,3]", "int32[4]"
    forward = cost("Conv2D(x0, x1) [16,96,96,3]", images, "[3,3,32,3]")
    to_filter = cost("Conv2DBackpropFilter(x0, x1, x2) [3,3,32,3]", images, sizes, few)
    to_input = cost("Conv2DBackpropInput(x0, x1, x2) [16,96,96,32]", sizes, "[3,3,32,3]", few)
    assert to_filter > 2 * forward
    assert to_filter > 2 * to_input


def test_depthwise_convolutions_do_not_reach_the_speed_of_products():
    depthwise = cost("DepthwiseConv2dNative(x0, x1) [8,56,56,96]", "[8,56,56,96]", "[3,3,96,1]")
    full = cost("Conv2D(x0, x1) [8,56,56,96]", "[8,56,56,96]", "[3,3,96,96]")
    assert full < 96 * depthwise / 5


def test_a_kernel_of_onednn_is_a_variant_of_its_op():
    plain = cost("MatMul(x0, x1) [32,1024]", "[32,1024]", "[1024,1024]")
    assert cost("_MklMatMul(x0, x1) [32,1024]", "[32,1024]", "[1024,1024]") == plain
    fused = cost("_MklNativeFusedMatMul(x0, x1, x2) [32,1024]", "[32,1024]", "[1024,1024]", "[1024]")
    assert fused == cost("_FusedMatMul(x0, x1, x2) [32,1024]", "[32,1024]", "[1024,1024]", "[1024]") == plain
    assert cost("_MklSoftmax(x0) [1000000]", "[1000000]") == cost("Softmax(x0) [1000000]", "[1000000]")


def test_onednn_packs_a_filter_once_and_others_for_each_image():
    sizes, filters, images = "int32[4]", "[3,3,256,256]", "[16,4,4,256]"
    line = "Conv2DBackpropInput(x0, x1, x2) [16,4,4,256]"
    packing = 4 * 3 * 3 * 256 * 256 / FILTER_BYTES_PER_US
    once, each = (cost(f"{kernel}{line}", sizes, filters, images) for kernel in ("_MklNative", ""))
    assert each - once == pytest.approx(15 * packing)
    # A filter that is all there is to move takes as long forward.
    forward = cost("_MklNativeConv2D(x0, x1) [1,1,1,256]", "[1,1,1,256]", "[1,1,256,256]")
    assert forward > 4 * 256 * 256 / FILTER_BYTES_PER_US


def test_broadcasting_a_vector_is_slow_and_a_scalar_is_not():
    same = cost("Sub(x0, x1) [1000,1000]", "[1000,1000]", "[1000,1000]")
    assert (
        cost("Sub(x0, x1) [1000,1000]", "[1000,1000]", "[1,1000]")
        > same
        > cost("Sub(x0, x1) [1000,1000]", "[1000,1000]", "[]")
    )


def test_a_variable_that_is_updated_is_read_and_written():
    handed = cost("AssignVariableOp(x0, x1)", "resource", "[1000000]")
    read = cost("Relu(x0) [1000000]", "[1000000]")
    assert handed == 0.0
    assert cost("AssignAddVariableOp(x0, x1)", "resource", "[1000000]") == pytest.approx(1.5 * read, rel=1e-3)
    # The gradient, the weight and two moments.
    adam = cost("ResourceApplyAdam(x0, x1, x2, x3)", "resource", "resource", "resource", "[1000000]")
    assert adam == pytest.approx(3.5 * read, rel=1e-3)


def test_unknown_shapes_leave_the_bytes():
    assert cost("Conv2D(x0, x1) [8,56,56,96]", "float32?", "float32?") > 0.0
