"""The table of probes: ops with the shapes and attributes under which their facts are checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tests.tf.op_cases_more import MORE_CASES
from tests.tf.probe import Case, Input, Variable


def f(*shape: int) -> Input:
    return Input(shape)


def half(*shape: int) -> Input:
    return Input(shape, "float16")


def bf(*shape: int) -> Input:
    return Input(shape, "bfloat16")


def i(*shape: int, high: int = 8, dtype: str = "int32") -> Input:
    return Input(shape, dtype, high)


def b(*shape: int) -> Input:
    return Input(shape, "bool")


def c(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def scalar(value: int) -> np.ndarray:
    return np.array(value, np.int32)


def case(op: str, attributes: dict[str, Any] | None = None, **inputs: Any) -> Case:
    return Case(op, inputs, attributes or {})


def _elementwise() -> list[Case]:
    unary = "Abs Neg Exp Log Log1p Sqrt Rsqrt Square Sigmoid Tanh Erf Sign Floor Reciprocal Expm1 Sin Round IsFinite"
    cases = [case(op, x=f(64, 100)) for op in unary.split()]
    cases += [case(op, features=f(64, 100)) for op in "Relu Relu6 Elu Selu Softplus Softsign LeakyRelu".split()]
    cases += [case(op, x=f(64, 100)) for op in "OnesLike ZerosLike".split()]
    cases += [case("Snapshot", input=f(64, 100)), case("LogicalNot", x=b(64, 100)), case("Abs", x=bf(64, 100))]
    binary = "AddV2 Sub Mul RealDiv Maximum Minimum SquaredDifference Pow DivNoNan FloorMod Xlogy Greater NotEqual"
    cases += [case(op, x=f(64, 100), y=f(64, 100)) for op in binary.split()]
    for op in ("AddV2", "Mul", "Sub", "SquaredDifference", "Greater"):
        cases += [case(op, x=f(64, 100), y=f(100)), case(op, x=f(64, 1), y=f(64, 100)), case(op, x=f(64, 100), y=f())]
        cases += [case(op, x=f(), y=f(64, 100)), case(op, x=f(64, 1), y=f(1, 100))]
    cases += [case("LogicalAnd", x=b(64, 100), y=b(64, 100)), case("Equal", x=b(64, 100), y=b(64, 100))]
    cases += [case("AddV2", x=f(1, 64, 100), y=f(64, 100)), case("AddV2", x=i(64, 100), y=i(64, 100))]
    for op in "ReluGrad Relu6Grad SoftplusGrad LeakyReluGrad SoftsignGrad".split():
        cases.append(case(op, gradients=f(64, 100), features=f(64, 100)))
    cases += [case(op, gradients=f(64, 100), outputs=f(64, 100)) for op in ("EluGrad", "SeluGrad")]
    cases += [
        case(op, y=f(64, 100), dy=f(64, 100)) for op in "TanhGrad SigmoidGrad RsqrtGrad SqrtGrad ReciprocalGrad".split()
    ]
    cases += [case("BiasAdd", value=f(8, 6, 6, 32), bias=f(32)), case("BiasAddGrad", out_backprop=f(8, 6, 6, 32))]
    cases += [case("ClipByValue", t=f(64, 100), clip_value_min=f(), clip_value_max=f())]
    cases += [case("AddN", inputs=[f(64, 100)] * count) for count in (1, 2, 3, 9)]
    cases += [
        case("SelectV2", condition=b(64, 100), t=f(64, 100), e=f(64, 100)),
        case("SelectV2", condition=b(64, 1), t=f(), e=f(64, 100)),
        case("Select", condition=b(64, 100), x=f(64, 100), y=f(64, 100)),
    ]
    for source, target in (
        ("float32", "bfloat16"),
        ("bfloat16", "float32"),
        ("float32", "float32"),
        ("bool", "float32"),
        ("int32", "float32"),
        ("float32", "int32"),
    ):
        cases.append(Case("Cast", {"x": Input((64, 100), source)}, {"DstT": target}))
    return cases


def _reductions() -> list[Case]:
    cases = []
    for axes in ((0,), (1,), (0, 1), (0, 1, 2), (0, 2), (1, 3), (3,), (0, 1, 2, 3), (1, 2), ()):
        cases.append(case("Sum", input=f(8, 10, 12, 16), axis=c(*axes)))
    for op in ("Mean", "Max", "Min", "Prod", "EuclideanNorm"):
        cases += [case(op, input=f(8, 10, 12, 16), axis=c(0, 1, 2)), case(op, input=f(8, 10, 12, 16), axis=c(0, 2))]
    cases += [
        case("Mean", input=f(8, 1, 12, 16), axis=c(1)),
        case("Mean", {"keep_dims": True}, input=f(64, 100), axis=c(-1)),
    ]
    cases += [case("Sum", input=f(4, 5, 6, 7, 8), axis=c(0, 2, 4)), case("Sum", input=bf(8, 10, 12, 16), axis=c(1, 3))]
    cases += [case("All", input=b(64, 100), axis=c(1)), case("Any", input=b(64, 100), axis=c(0))]
    cases += [case("ArgMax", input=f(64, 100), dimension=scalar(1)), case("L2Loss", t=f(64, 100))]
    cases += [case("Cumsum", x=f(64, 100), axis=scalar(1))]
    cases += [case("UnsortedSegmentSum", data=f(64, 100), segment_ids=i(64), num_segments=scalar(8))]
    cases += [case("SegmentSum", data=f(64, 100), segment_ids=np.arange(64, dtype=np.int32) // 4)]
    for op in ("SparseSegmentSum", "SparseSegmentSqrtN"):
        segments = np.arange(32, dtype=np.int32) // 4
        cases.append(case(op, data=f(64, 100), indices=i(32), segment_ids=segments))
    for op in ("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"):
        cases.append(case(op, data=f(64, 100), segment_ids=i(64), num_segments=scalar(8)))
    cases += [case("UnsortedSegmentSum", data=f(640, 100), segment_ids=i(640), num_segments=scalar(1000))]
    cases += [case("BiasAddGrad", out_backprop=f(8, 30, 30, 200)), case("BiasAddGrad", out_backprop=bf(64, 50))]
    cases += [case("SparseSegmentMean", data=f(64, 100), indices=i(32), segment_ids=np.arange(32, dtype=np.int32) // 4)]
    return cases


def _arrays() -> list[Case]:
    cases = [
        case("Identity", input=f(64, 100)),
        case("Reshape", tensor=f(64, 100), shape=c(100, 64)),
        case("Squeeze", input=f(64, 1, 100)),
        case("ExpandDims", input=f(64, 100), axis=scalar(1)),
        case("StopGradient", input=f(64, 100)),
        case("PreventGradient", input=f(64, 100)),
        case("CheckNumerics", {"message": ""}, tensor=f(64, 100)),
        case("EnsureShape", {"shape": [64, 100]}, input=f(64, 100)),
        case("IdentityN", input=[f(64, 100), f(10, 10)]),
        Case("Bitcast", {"input": f(64, 100)}, {"type": "int32"}),
        case("ConcatV2", values=[f(64, 100), f(64, 50)], axis=scalar(1)),
        case("ConcatV2", values=[f(64, 100), f(32, 100)], axis=scalar(0)),
        case("Tile", input=f(64, 100), multiples=c(2, 3)),
        case("Tile", input=f(64, 100), multiples=c(1, 1)),
        case("BroadcastTo", input=f(64, 1), shape=c(64, 100)),
        case("BroadcastTo", input=f(64, 100), shape=c(64, 100)),
        case("Reverse", tensor=f(64, 100), dims=np.array([True, False])),
        case("ReverseV2", tensor=f(64, 100), axis=c(1)),
        case("Roll", input=f(64, 100), shift=c(1), axis=c(0)),
        case("Shape", input=f(64, 100)),
        case("Size", input=f(64, 100)),
        case("Rank", input=f(64, 100)),
        case("ShapeN", input=[f(64, 100), f(2, 3, 4)]),
        case("BroadcastGradientArgs", s0=i(2, high=2), s1=i(2, high=2)),
        case("Fill", dims=c(64, 100), value=f()),
        case("Range", start=i(high=1), limit=scalar(1000), delta=scalar(1)),
        case("OneHot", indices=i(64), depth=scalar(100), on_value=f(), off_value=f()),
        case("GatherV2", params=f(100, 64), indices=i(32), axis=scalar(0)),
        case("GatherV2", {"batch_dims": 1}, params=f(10, 20, 64), indices=i(10, 32), axis=scalar(1)),
        case("GatherNd", params=f(100, 64), indices=i(32, 1)),
        case("ScatterNd", indices=i(32, 1), updates=f(32, 64), shape=c(100, 64)),
        case("TensorScatterUpdate", tensor=f(100, 64), indices=i(32, 1), updates=f(32, 64)),
        case("TensorScatterAdd", tensor=f(100, 64), indices=i(32, 1), updates=f(32, 64)),
        case(
            "DynamicStitch",
            indices=[np.arange(32, dtype=np.int32), np.arange(32, 64, dtype=np.int32)],
            data=[f(32, 20), f(32, 20)],
        ),
        case("DynamicPartition", {"num_partitions": 2}, data=f(64, 20), partitions=i(64, high=2)),
        case("Where", condition=b(64, 100)),
        case("Unique", x=i(640)),
        case("TopKV2", input=f(64, 100), k=scalar(5)),
        case("InTopKV2", predictions=f(64, 100), targets=i(64), k=scalar(5)),
        case("Bincount", arr=i(640), size=scalar(8), weights=f(640)),
        case("DenseBincount", input=i(640), size=scalar(8), weights=f(640)),
        case("SpaceToBatchND", input=f(8, 10, 10, 4), block_shape=c(2, 2), paddings=np.zeros((2, 2), np.int32)),
        case("BatchToSpaceND", input=f(8, 10, 10, 4), block_shape=c(2, 2), crops=np.zeros((2, 2), np.int32)),
        case("DepthToSpace", {"block_size": 2}, input=f(8, 10, 10, 16)),
        case("SpaceToDepth", {"block_size": 2}, input=f(8, 10, 10, 4)),
        case("StridedSliceGrad", shape=c(64, 100), begin=c(0, 0), end=c(32, 100), strides=c(1, 1), dy=f(32, 100)),
    ]
    cases += [case("Transpose", x=f(8, 10, 12), perm=c(*perm)) for perm in ((0, 1, 2), (1, 0, 2), (2, 1, 0))]
    cases += [case("Transpose", x=f(8, 1, 12), perm=c(1, 0, 2)), case("Transpose", x=f(8, 1, 12), perm=c(2, 1, 0))]
    pad = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    cases += [
        case("Pad", input=f(8, 10, 10, 4), paddings=pad),
        case("Pad", input=f(8, 10, 10, 4), paddings=np.array([[0, 0], [0, 0], [0, 0], [0, 2]], np.int32)),
        case("Pad", input=f(8, 10, 10, 4), paddings=pad * 0),
        case("PadV2", input=f(8, 10, 10, 4), paddings=pad, constant_values=f()),
        case("MirrorPad", {"mode": "REFLECT"}, input=f(8, 10, 10, 4), paddings=pad),
        case("MirrorPadGrad", {"mode": "REFLECT"}, input=f(8, 10, 10, 4), paddings=pad),
    ]
    return cases + _cuts()


def _cuts() -> list[Case]:
    cases = []
    # Rows of 64, 32, 16 and 4 bytes: which of them count as aligned decides between a view and a copy.
    for width in (16, 8, 4, 1, 24):
        cases.append(case("Split", {"num_split": 4}, axis=scalar(0), value=f(64, width)))
        cases.append(case("Unpack", {"num": 4, "axis": 0}, value=f(4, width)))
        cases.append(case("Slice", input=f(64, width), begin=c(16, 0), size=c(32, width)))
        cases.append(
            case(
                "StridedSlice",
                {"end_mask": 2, "begin_mask": 2},
                input=f(64, width),
                begin=c(16, 0),
                end=c(48, 0),
                strides=c(1, 1),
            )
        )
    for start in (16, 8, 3):
        cases.append(case("Slice", input=f(640), begin=c(start), size=c(32)))
        cases.append(case("StridedSlice", input=f(640), begin=c(start), end=c(start + 16), strides=c(1)))
    cases += [
        case("Split", {"num_split": 4}, axis=scalar(1), value=f(64, 16)),
        case("Split", {"num_split": 1}, axis=scalar(1), value=f(64, 16)),
        case("Split", {"num_split": 4}, axis=scalar(0), value=f(64)),
        case("SplitV", {"num_split": 2}, value=f(64, 16), size_splits=c(16, 48), axis=scalar(0)),
        case("SplitV", {"num_split": 2}, value=f(64, 16), size_splits=c(5, 11), axis=scalar(1)),
        case("SplitV", {"num_split": 2}, value=f(64), size_splits=c(16, 48), axis=scalar(0)),
        case("SplitV", {"num_split": 2}, value=f(64), size_splits=c(10, 54), axis=scalar(0)),
        case("Unpack", {"num": 16, "axis": 1}, value=f(64, 16)),
        case("Pack", {"axis": 0}, values=[f(64, 16), f(64, 16)]),
        case("Pack", {"axis": 1}, values=[f(64, 16)]),
        case("Slice", input=f(64, 16), begin=c(0, 0), size=c(64, 16)),
        case("Slice", input=f(64, 16), begin=c(0, 4), size=c(64, 8)),
        case("StridedSlice", {"shrink_axis_mask": 1}, input=f(64, 16), begin=c(3), end=c(4), strides=c(1)),
        case("StridedSlice", {"shrink_axis_mask": 1}, input=f(64, 5), begin=c(3), end=c(4), strides=c(1)),
        case(
            "StridedSlice",
            {"ellipsis_mask": 1, "shrink_axis_mask": 2},
            input=f(64, 16),
            begin=c(0, 3),
            end=c(0, 4),
            strides=c(1, 1),
        ),
        case(
            "StridedSlice",
            {"begin_mask": 3, "end_mask": 3, "new_axis_mask": 4},
            input=f(64, 16),
            begin=c(0, 0, 0),
            end=c(0, 0, 0),
            strides=c(1, 1, 1),
        ),
        case("StridedSlice", {"begin_mask": 1}, input=f(64, 16), begin=c(0), end=c(-1), strides=c(1)),
        case("StridedSlice", input=f(64, 16), begin=c(0), end=c(64), strides=c(2)),
    ]
    return cases


def _linear() -> list[Case]:
    cases = [
        case("MatMul", a=f(50, 30), b=f(30, 20)),
        case("MatMul", a=f(500, 300), b=f(300, 200)),
        case("MatMul", {"transpose_a": True}, a=f(300, 500), b=f(300, 200)),
        case("MatMul", a=f(500, 300), b=f(300, 1)),
        case("MatMul", a=bf(50, 30), b=bf(30, 20)),
        case("MatMul", a=half(50, 30), b=half(30, 20)),
        case("BatchMatMulV2", x=f(8, 4, 50, 30), y=f(8, 4, 30, 20)),
        case("BatchMatMulV2", {"adj_y": True}, x=f(8, 4, 50, 30), y=f(8, 4, 20, 30)),
        case("BatchMatMulV2", x=f(8, 4, 50, 30), y=f(30, 20)),
        case("BatchMatMulV2", x=bf(8, 50, 30), y=bf(8, 30, 20)),
        case(
            "SparseTensorDenseMatMul",
            a_indices=np.array([[k, k] for k in range(20)], np.int64),
            a_values=f(20),
            a_shape=np.array([50, 30], np.int64),
            b=f(30, 20),
        ),
        case("MatrixSolve", matrix=f(20, 20), rhs=f(20, 5)),
        case("MatrixInverse", input=f(20, 20)),
        case("MatrixTriangularSolve", matrix=f(20, 20), rhs=f(20, 5)),
        case("MatrixDeterminant", input=f(20, 20)),
        case("Qr", input=f(20, 20)),
        case("MatrixSetDiagV3", input=f(50, 50), diagonal=f(50), k=scalar(0)),
        case("MatrixBandPart", input=f(50, 50), num_lower=scalar(-1), num_upper=scalar(0)),
        case("MatrixDiagPartV3", input=f(50, 50), k=scalar(0), padding_value=f()),
    ]
    equations = {
        "abc,cd->abd": (f(8, 10, 12), f(12, 16)),
        "abc,cde->abde": (f(8, 10, 12), f(12, 4, 6)),
        "aecd,abcd->acbe": (f(8, 10, 4, 6), f(8, 12, 4, 6)),
        "acbe,aecd->abcd": (f(8, 4, 12, 10), f(8, 10, 4, 6)),
        "abcd,cde->abe": (f(8, 10, 4, 6), f(4, 6, 12)),
        "ab,ac->bc": (f(64, 10), f(64, 12)),
        "abc,abd->cd": (f(8, 10, 12), f(8, 10, 16)),
        "...ij,jk->...ik": (f(8, 10, 12), f(12, 16)),
        "ab,bc->ca": (f(64, 10), f(10, 12)),
        "bqhd,bkhd->bhqk": (f(4, 10, 2, 6), f(4, 12, 2, 6)),
        "bhqk,bkhd->bqhd": (f(4, 2, 10, 12), f(4, 12, 2, 6)),
    }
    for equation, inputs in equations.items():
        cases.append(Case("Einsum", {"inputs": list(inputs)}, {"equation": equation}))
    for equation in ("ab->ba", "ab->a", "ab->ab", "abc->ca"):
        shape = (20, 30, 40)[: len(equation.split("->")[0])]
        cases.append(Case("Einsum", {"inputs": [f(*shape)]}, {"equation": equation}))
    return cases


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
        # A third of this is spared when nobody else holds the pooled output: a fact has no word for that.
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


def _random() -> list[Case]:
    cases = [
        Case(op, {"shape": c(64, 100)}, {"dtype": "float32"})
        for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
    ]
    key = dict(key=i(1, dtype="uint64"), counter=i(2, dtype="uint64"), alg=scalar(1))
    cases += [
        Case(op, {"shape": c(64, 100), **key}, {"dtype": "float32"})
        for op in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2")
    ]
    cases += [
        case("StatelessRandomUniform", shape=c(64, 100), seed=i(2)),
        case("RandomUniformInt", shape=c(64, 100), minval=scalar(0), maxval=scalar(9)),
    ]
    cases += [case("StatelessRandomGetKeyCounter", seed=i(2)), case("RandomShuffle", value=f(64, 100))]
    return cases


def _state() -> list[Case]:
    v = Variable((64, 100))
    cases = [
        Case("ReadVariableOp", {"resource": v}, {"dtype": "float32"}),
        case("VariableShape", input=v),
        case("ResourceApplyGradientDescent", var=v, alpha=f(), delta=f(64, 100)),
        case(
            "ResourceApplyAdam",
            var=v,
            m=v,
            v=v,
            beta1_power=f(),
            beta2_power=f(),
            lr=f(),
            beta1=f(),
            beta2=f(),
            epsilon=f(),
            grad=f(64, 100),
        ),
        case("ResourceApplyMomentum", var=v, accum=v, lr=f(), grad=f(64, 100), momentum=f()),
        case("ResourceApplyRMSProp", var=v, ms=v, mom=v, lr=f(), rho=f(), momentum=f(), epsilon=f(), grad=f(64, 100)),
        case("ResourceScatterAdd", resource=Variable((64, 100)), indices=i(32), updates=f(32, 100)),
        case("AssignAddVariableOp", resource=v, value=f(64, 100)),
        Case("ResourceGather", {"resource": Variable((64, 100)), "indices": i(32)}, {"dtype": "float32"}),
        case("ResourceSparseApplyAdagradV2", var=v, accum=v, lr=f(), epsilon=f(), grad=f(32, 100), indices=i(32)),
    ]
    peephole = dict(wci=f(32), wcf=f(32), wco=f(32), b=f(128))
    cell = dict(x=f(16, 24), cs_prev=f(16, 32), h_prev=f(16, 32), w=f(56, 128), **peephole)
    cases.append(case("LSTMBlockCell", **cell))
    sequence = cell | dict(x=f(7, 16, 24))
    cases.append(case("BlockLSTM", seq_len_max=np.array(7, np.int64), **sequence))
    outputs = {key: f(7, 16, 32) for key in ("i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad")}
    cases.append(
        case("BlockLSTMGrad", {"use_peephole": False}, seq_len_max=np.array(7, np.int64), **sequence, **outputs)
    )
    cases.append(
        case("GRUBlockCell", x=f(16, 24), h_prev=f(16, 32), w_ru=f(56, 64), w_c=f(56, 32), b_ru=f(64), b_c=f(32))
    )
    return cases


CASES: list[Case] = [
    *_elementwise(),
    *_reductions(),
    *_arrays(),
    *_linear(),
    *_convolutions(),
    *_neural(),
    *_random(),
    *_state(),
    *MORE_CASES,
]
