"""The table of probes: ops with the shapes and attributes under which their facts are checked."""

from __future__ import annotations

import numpy as np

from tests.tf.op_cases_more import MORE_CASES
from tests.tf.op_cases_neural import NEURAL_CASES
from tests.tf.op_tensors import b, bf, c, case, f, half, i, scalar
from tests.tf.probe import Case, Input, Variable


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
    *NEURAL_CASES,
    *_random(),
    *_state(),
    *MORE_CASES,
]
