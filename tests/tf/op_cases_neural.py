"""Probes of layers: convolution, pooling, normalisation, losses, resizing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.tf.op_tensors import bf, c, case, f, i
from tests.tf.probe import Case


def _conv(
    op: str, image: tuple, weights: tuple, out: tuple, stride: int = 1, padding: str = "SAME", kind: Any = f
) -> Case:
    window = {"strides": [1, *[stride] * (len(image) - 2), 1], "padding": padding}
    gradient = kind(*out)
    if "BackpropFilter" in op:
        return Case(op, {"input": kind(*image), "filter_sizes": c(*weights), "out_backprop": gradient}, window)
    if "BackpropInput" in op:
        return Case(op, {"input_sizes": c(*image), "filter": kind(*weights), "out_backprop": gradient}, window)
    return Case(op, {"input": kind(*image), "filter": kind(*weights)}, window)


def _convolutions() -> list[Case]:
    sizes = [
        ((8, 16, 16, 8), (3, 3, 8, 16), (8, 16, 16, 16), 1, "SAME"),
        ((8, 16, 16, 8), (1, 1, 8, 32), (8, 16, 16, 32), 1, "SAME"),
        ((2, 17, 15, 3), (5, 5, 3, 16), (2, 9, 8, 16), 2, "SAME"),
        ((1, 28, 28, 16), (3, 3, 16, 32), (1, 26, 26, 32), 1, "VALID"),
        ((4, 56, 56, 32), (3, 3, 32, 32), (4, 56, 56, 32), 1, "SAME"),
        ((64, 4, 4, 64), (3, 3, 64, 64), (64, 4, 4, 64), 1, "SAME"),
    ]
    cases = []
    for size in sizes:
        for op in ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"):
            cases.append(_conv(op, *size))
    for op in ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"):
        cases.append(_conv(op, *sizes[0], kind=bf))
    cases.append(_conv("Conv2D", (8, 16, 16, 8), (3, 3, 4, 16), (8, 16, 16, 16)))
    fusion = {"strides": [1, 1, 1, 1], "padding": "SAME", "num_args": 1, "epsilon": 0.0, "leakyrelu_alpha": 0.2}
    image = {"explicit_paddings": [], "data_format": "NHWC", "filter_format": "HWIO", "dilations": [1, 1, 1, 1]}
    for fused in (["BiasAdd"], ["BiasAdd", "Relu"]):
        operands = {"input": f(8, 16, 16, 8), "filter": f(3, 3, 8, 16), "args": [f(16)], "host_args": []}
        cases.append(Case("_FusedConv2D", operands, {**fusion, **image, "use_cudnn_on_gpu": False, "fused_ops": fused}))
        product = {"a": f(500, 300), "b": f(300, 200), "args": [f(200)]}
        cases.append(
            Case(
                "_FusedMatMul",
                product,
                {
                    "transpose_a": False,
                    "transpose_b": False,
                    "epsilon": 0.0,
                    "leakyrelu_alpha": 0.2,
                    "fused_ops": fused,
                },
            )
        )
    volumes = [
        ((2, 8, 8, 8, 4), (3, 3, 3, 4, 8), (2, 8, 8, 8, 8), 1, "SAME"),
        ((1, 16, 16, 16, 8), (3, 3, 3, 8, 16), (1, 8, 8, 8, 16), 2, "SAME"),
        ((32, 16, 16, 16, 4), (2, 2, 2, 4, 16), (32, 15, 15, 15, 16), 1, "VALID"),
    ]
    for size in volumes:
        for op in ("Conv3D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2"):
            cases.append(_conv(op, *size))
    depthwise = [
        ((8, 16, 16, 8), (3, 3, 8, 1), (8, 16, 16, 8), 1, "SAME"),
        ((8, 17, 17, 12), (3, 3, 12, 1), (8, 9, 9, 12), 2, "SAME"),
        ((8, 16, 16, 6), (5, 5, 6, 2), (8, 16, 16, 12), 1, "SAME"),
        ((32, 28, 28, 144), (3, 3, 144, 1), (32, 28, 28, 144), 1, "SAME"),
    ]
    for size in depthwise:
        for op in (
            "DepthwiseConv2dNative",
            "DepthwiseConv2dNativeBackpropInput",
            "DepthwiseConv2dNativeBackpropFilter",
        ):
            # A large one is spread over threads, each with its buffer; how many of them meet is chance.
            cases.append(replace(_conv(op, *size), chance=0.8 if size[0][0] == 32 else 0.0))
    return cases


def _pools() -> list[Case]:
    window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    volume = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
    return [
        case("MaxPool", window, input=f(8, 16, 16, 8)),
        # A third of this is saved when the pooled output has no other reference; a fact cannot state that.
        replace(
            case("MaxPoolGrad", window, orig_input=f(8, 16, 16, 8), orig_output=f(8, 8, 8, 8), grad=f(8, 8, 8, 8)),
            chance=0.34,
        ),
        case("AvgPool", window, value=f(8, 16, 16, 8)),
        case("AvgPoolGrad", window, orig_input_shape=c(8, 16, 16, 8), grad=f(8, 8, 8, 8)),
        case("MaxPool3D", volume, input=f(2, 8, 8, 8, 4)),
        case("MaxPool3DGrad", volume, orig_input=f(2, 8, 8, 8, 4), orig_output=f(2, 4, 4, 4, 4), grad=f(2, 4, 4, 4, 4)),
        case("AvgPool3D", volume, input=f(2, 8, 8, 8, 4)),
        case("AvgPool3DGrad", volume, orig_input_shape=c(2, 8, 8, 8, 4), grad=f(2, 4, 4, 4, 4)),
        case("MaxPoolWithArgmax", window, input=f(8, 16, 16, 8)),
    ]


def _neural() -> list[Case]:
    cases = _pools()
    for op in ("FusedBatchNorm", "FusedBatchNormV3"):
        cases.append(case(op, x=f(8, 10, 10, 32), scale=f(32), offset=f(32), mean=f(0), variance=f(0)))
        cases.append(
            case(op, {"is_training": False}, x=f(8, 10, 10, 32), scale=f(32), offset=f(32), mean=f(32), variance=f(32))
        )
    for training in (True, False):
        for kind in (f, bf):
            saved = dict(scale=f(32), reserve_space_1=f(32), reserve_space_2=f(32), reserve_space_3=f(0))
            cases.append(
                case(
                    "FusedBatchNormGradV3",
                    {"is_training": training},
                    y_backprop=kind(8, 10, 10, 32),
                    x=kind(8, 10, 10, 32),
                    **saved,
                )
            )
    cases += [case("FusedBatchNormV3", x=bf(8, 10, 10, 32), scale=f(32), offset=f(32), mean=f(0), variance=f(0))]
    cases += [case(op, logits=f(64, 100)) for op in ("Softmax", "LogSoftmax")]
    cases += [case("Softmax", logits=f(4, 8, 10, 10))]
    cases += [case("SoftmaxCrossEntropyWithLogits", features=f(64, 100), labels=f(64, 100))]
    cases += [case("SparseSoftmaxCrossEntropyWithLogits", features=f(64, 100), labels=i(64, dtype="int64"))]
    cases += [
        case("LRN", input=f(8, 10, 10, 16)),
        case("LRNGrad", input_grads=f(8, 10, 10, 16), input_image=f(8, 10, 10, 16), output_image=f(8, 10, 10, 16)),
    ]
    cases += [
        case("ResizeBilinear", images=f(4, 10, 10, 8), size=c(20, 20)),
        case("ResizeNearestNeighbor", images=f(4, 10, 10, 8), size=c(20, 20)),
    ]
    cases += [case("ResizeBilinearGrad", grads=f(4, 20, 20, 8), original_image=f(4, 10, 10, 8))]
    cases += [case("ResizeNearestNeighborGrad", grads=f(4, 20, 20, 8), size=c(10, 10))]
    cases += [case("CropAndResize", image=f(4, 10, 10, 8), boxes=f(6, 4), box_ind=i(6, high=4), crop_size=c(5, 5))]
    return cases


NEURAL_CASES: list[Case] = [*_convolutions(), *_neural()]
