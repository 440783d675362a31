"""The cases of the oneDNN probes: functions that TensorFlow turns into oneDNN ops, with the op that must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

nn, raw = tf.nn, tf.raw_ops
ONES = [1, 1, 1, 1]
WIDE = [1, 2, 2, 1]
WINDOW = [1, 3, 3, 1]


@dataclass(frozen=True)
class Case:
    """One function of tensors of the given shapes, and the op whose memory is compared."""

    op: str
    label: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def _conv(strides: int = 1, padding: str = "SAME", **more: Any) -> Callable[..., Any]:
    return lambda x, w: nn.conv2d(x, w, strides, padding, **more)


def _fused_conv(x: Any, w: Any, b: Any) -> Any:
    return nn.relu(nn.bias_add(nn.conv2d(x, w, 1, "SAME"), b))


def _fused_conv_add(x: Any, w: Any, b: Any, addend: Any) -> Any:
    return nn.relu(nn.bias_add(nn.conv2d(x, w, 1, "SAME"), b) + addend)


def _padded_conv(x: Any, w: Any) -> Any:
    return nn.conv2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), w, 1, "VALID")


def _filter_gradient(x: Any, g: Any) -> Any:
    return raw.Conv2DBackpropFilter(input=x, filter_sizes=[3, 3, 16, 32], out_backprop=g, strides=ONES, padding="SAME")


def _input_gradient(w: Any, g: Any) -> Any:
    return raw.Conv2DBackpropInput(input_sizes=[4, 28, 28, 16], filter=w, out_backprop=g, strides=ONES, padding="SAME")


def _depthwise_input_gradient(w: Any, g: Any) -> Any:
    return raw.DepthwiseConv2dNativeBackpropInput(
        input_sizes=[4, 28, 28, 16], filter=w, out_backprop=g, strides=ONES, padding="SAME"
    )


def _depthwise_filter_gradient(x: Any, g: Any) -> Any:
    return raw.DepthwiseConv2dNativeBackpropFilter(
        input=x, filter_sizes=[3, 3, 16, 1], out_backprop=g, strides=ONES, padding="SAME"
    )


def _volume_input_gradient(w: Any, g: Any) -> Any:
    return raw.Conv3DBackpropInputV2(
        input_sizes=[2, 8, 16, 16, 8], filter=w, out_backprop=g, strides=[1] * 5, padding="SAME"
    )


def _volume_filter_gradient(x: Any, g: Any) -> Any:
    return raw.Conv3DBackpropFilterV2(
        input=x, filter_sizes=[3, 3, 3, 8, 16], out_backprop=g, strides=[1] * 5, padding="SAME"
    )


def _pool_gradient(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = nn.max_pool2d(x, 3, 2, "SAME")
    return tape.gradient(y, x)


def _average_gradient(g: Any) -> Any:
    return raw.AvgPoolGrad(orig_input_shape=[4, 28, 28, 20], grad=g, ksize=WINDOW, strides=WIDE, padding="SAME")


def _normalize(x: Any, scale: Any, offset: Any) -> Any:
    empty = tf.zeros([0])
    return raw.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=empty, variance=empty, is_training=True)[0]


def _normalize_relu(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
    result = raw.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=mean, variance=variance, is_training=False)
    return nn.relu(result[0])


def _normalize_gradient(x: Any, scale: Any, offset: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, scale, offset])
        y = _normalize(x, scale, offset)
    return tape.gradient(y, [x, scale, offset])


def _volume(x: Any, w: Any) -> Any:
    return nn.conv3d(x, w, [1] * 5, "SAME")


def _depthwise(x: Any, w: Any) -> Any:
    return nn.depthwise_conv2d(x, w, ONES, "SAME")


IMAGE, KERNEL, MADE = (4, 28, 28, 16), (3, 3, 16, 32), (4, 28, 28, 32)
NORMALIZED, CHANNELS = (4, 28, 28, 20), (20,)
VOLUME, CUBE = (2, 8, 16, 16, 8), (3, 3, 3, 8, 16)

CASES = [
    Case("_MklNativeConv2D", "3x3", _conv(), (IMAGE, KERNEL)),
    Case("_MklNativeConv2D", "strided", _conv(2), (IMAGE, KERNEL)),
    Case("_MklNativeConv2D", "dilated", _conv(dilations=2), (IMAGE, KERNEL)),
    Case(
        "_MklNativeConv2D",
        "11x11: more products than a page lists",
        _conv(4, "VALID"),
        ((2, 64, 64, 3), (11, 11, 3, 32)),
    ),
    Case("_MklNativeConv2D", "pointwise", _conv(), (IMAGE, (1, 1, 16, 32))),
    Case("_MklNativeConv2D", "grouped", _conv(), (IMAGE, (3, 3, 8, 32))),
    Case("_MklNativeConv2D", "too small for all threads", _conv(), ((4, 4, 4, 4), (3, 3, 4, 4))),
    Case("_MklNativeConv2D", "one image", _conv(), ((1, 56, 56, 64), (3, 3, 64, 32))),
    Case("_MklNativeConv2D", "one image, large weights", _conv(), ((1, 14, 14, 256), (3, 3, 256, 128))),
    Case("_MklNativeConv2D", "one image, dilated", _conv(dilations=2), ((1, 28, 28, 24), (3, 3, 24, 32))),
    Case("_MklNativeConv2D", "one image, pointwise", _conv(), ((1, 32, 32, 64), (1, 1, 64, 10))),
    Case("_MklNativeConv2D", "one image, grouped", _conv(), ((1, 28, 28, 16), (3, 3, 8, 32))),
    Case("_MklNativeConv2D", "channels first", _conv(data_format="NCHW"), ((4, 16, 28, 28), KERNEL)),
    Case("_MklNativeConv2D", "channels first, pointwise", _conv(data_format="NCHW"), ((4, 16, 28, 28), (1, 1, 16, 32))),
    Case("_MklNativeFusedConv2D", "bias, relu", _fused_conv, (IMAGE, KERNEL, (32,))),
    Case("_MklNativeFusedConv2D", "bias, add, relu", _fused_conv_add, (IMAGE, KERNEL, (32,), MADE)),
    Case("_MklNativeFusedConv2D", "one image", _fused_conv, ((1, 28, 28, 16), KERNEL, (32,))),
    Case("_MklNativePadWithConv2D", "padded", _padded_conv, (IMAGE, KERNEL)),
    Case("_MklNativeConv2DBackpropInput", "3x3", _input_gradient, (KERNEL, MADE)),
    Case("_MklNativeConv2DBackpropFilter", "3x3", _filter_gradient, (IMAGE, MADE)),
    Case(
        "_MklNativeConv2DBackpropFilterWithBias",
        "3x3",
        lambda x, g: (_filter_gradient(x, g), raw.BiasAddGrad(out_backprop=g)),
        (IMAGE, MADE),
    ),
    Case("_MklNativeDepthwiseConv2dNative", "3x3", _depthwise, (IMAGE, (3, 3, 16, 1))),
    Case("_MklNativeDepthwiseConv2dNative", "two of each", _depthwise, (IMAGE, (3, 3, 16, 2))),
    Case("_MklNativeDepthwiseConv2dNative", "one image", _depthwise, ((1, 28, 28, 16), (3, 3, 16, 1))),
    Case(
        "_MklNativeFusedDepthwiseConv2dNative",
        "bias, relu6",
        lambda x, w, b: nn.relu6(nn.bias_add(_depthwise(x, w), b)),
        (IMAGE, (3, 3, 16, 1), (16,)),
    ),
    Case("_MklNativeDepthwiseConv2dNativeBackpropInput", "3x3", _depthwise_input_gradient, ((3, 3, 16, 1), IMAGE)),
    Case("_MklNativeDepthwiseConv2dNativeBackpropFilter", "3x3", _depthwise_filter_gradient, (IMAGE, IMAGE)),
    Case("_MklNativeConv3D", "3x3x3", _volume, (VOLUME, CUBE)),
    Case("_MklNativeConv3D", "7x7x7", _volume, ((2, 16, 16, 16, 8), (7, 7, 7, 8, 16))),
    Case("_MklNativeConv3D", "one volume", _volume, ((1, 8, 16, 16, 8), CUBE)),
    Case("_MklNativeFusedConv3D", "bias", lambda x, w, b: nn.bias_add(_volume(x, w), b), (VOLUME, CUBE, (16,))),
    Case("_MklNativeConv3DBackpropInputV2", "3x3x3", _volume_input_gradient, (CUBE, (2, 8, 16, 16, 16))),
    Case("_MklNativeConv3DBackpropFilterV2", "3x3x3", _volume_filter_gradient, (VOLUME, (2, 8, 16, 16, 16))),
    Case("_MklNativeMaxPool", "3x3", lambda x: nn.max_pool2d(x, 3, 2, "SAME"), (NORMALIZED,)),
    Case("_MklNativeMaxPool", "15x15", lambda x: nn.max_pool2d(x, 15, 2, "SAME"), ((2, 32, 32, 20),)),
    Case(
        "_MklNativeMaxPool",
        "16x16: no byte counts its places",
        lambda x: nn.max_pool2d(x, 16, 2, "SAME"),
        ((2, 32, 32, 20),),
    ),
    Case("_MklNativeMaxPoolGrad", "3x3", _pool_gradient, (NORMALIZED,)),
    Case("_MklNativeAvgPool", "3x3", lambda x: nn.avg_pool2d(x, 3, 2, "SAME"), (NORMALIZED,)),
    Case("_MklNativeAvgPoolGrad", "3x3", _average_gradient, ((4, 14, 14, 20),)),
    Case("_MklNativeMaxPool3D", "2x2x2", lambda x: nn.max_pool3d(x, 2, 2, "SAME"), (VOLUME,)),
    Case("_MklNativeAvgPool3D", "2x2x2", lambda x: nn.avg_pool3d(x, 2, 2, "SAME"), (VOLUME,)),
    Case("_MklNativeFusedBatchNormV3", "training", _normalize, (NORMALIZED, CHANNELS, CHANNELS)),
    Case("_MklNativeFusedBatchNormEx", "inference", _normalize_relu, (NORMALIZED, *[CHANNELS] * 4)),
    Case("_MklNativeFusedBatchNormGradV3", "training", _normalize_gradient, (NORMALIZED, CHANNELS, CHANNELS)),
    Case("_MklMatMul", "plain", lambda a, b: a @ b, ((64, 128), (128, 256))),
    Case("_MklMatMul", "transposed", lambda a, b: tf.matmul(a, b, transpose_a=True), ((128, 64), (128, 256))),
    Case(
        "_MklNativeFusedMatMul",
        "bias, relu",
        lambda a, b, c: nn.relu(nn.bias_add(a @ b, c)),
        ((64, 2048), (2048, 256), (256,)),
    ),
    Case(
        "_MklNativeFusedMatMul",
        "bias, add",
        lambda a, b, c, d: nn.bias_add(a @ b, c) + d,
        ((64, 128), (128, 256), (256,), (64, 256)),
    ),
    Case("_MklBatchMatMulV2", "plain", lambda a, b: a @ b, ((2, 8, 64, 32), (2, 8, 32, 48))),
    Case("_MklBatchMatMulV2", "transposed", lambda a, b: tf.matmul(a, b, transpose_b=True), ((8, 64, 32), (8, 48, 32))),
    Case("_MklBatchMatMulV2", "broadcast", lambda a, b: a @ b, ((4, 1, 64, 32), (1, 3, 32, 48))),
    Case(
        "_MklFusedBatchMatMulV2",
        "mul, add",
        lambda a, b, c: (a @ b) * 0.125 + c,
        ((2, 8, 64, 32), (2, 8, 32, 64), (2, 1, 64, 64)),
    ),
    Case("_MklEinsum", "attention", lambda a, b: tf.einsum("aecd,abcd->acbe", a, b), ((2, 64, 4, 32), (2, 48, 4, 32))),
    Case("_MklEinsum", "projection", lambda a, b: tf.einsum("abc,cde->abde", a, b), ((2, 64, 128), (128, 4, 32))),
    Case("_MklSoftmax", "rows", lambda x: nn.softmax(x), ((8, 64, 64),)),
    Case("_MklTranspose", "swap", lambda x: tf.transpose(x, [1, 0, 2]), ((8, 64, 48),)),
    Case("_MklTranspose", "only ones move", lambda x: tf.transpose(x, [1, 0, 2]), ((8, 1, 48),)),
    Case("_MklConjugateTranspose", "swap", lambda x: raw.ConjugateTranspose(x=x, perm=[1, 0]), ((64, 48),)),
    Case("_MklSwish", "plain", lambda x: x * nn.sigmoid(x), ((8, 14, 14, 16),)),
    Case("_MklFusedMish", "plain", lambda x: x * tf.tanh(nn.softplus(x)), ((8, 14, 14, 16),)),
]
