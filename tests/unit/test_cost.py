"""Durations: what takes longer than what."""

from tests.unit.graphs import make_work


def cost(line, *arguments):
    text = "\n".join(f"x{index} = _Arg() {argument}" for index, argument in enumerate(arguments))
    work = make_work(f"{text}\ny = {line}")
    return work.cost_us[len(arguments)]


def test_handing_a_buffer_on_takes_no_time():
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


def test_unknown_shapes_leave_the_bytes():
    assert cost("Conv2D(x0, x1) [8,56,56,96]", "float32?", "float32?") > 0.0
