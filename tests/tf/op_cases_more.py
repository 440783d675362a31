"""More probes: half-size floats, rarer ops, and layers that other frameworks call by other names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.tf.op_tensors import c, f, i, scalar
from tests.tf.probe import Case, Input, Variable

WINDOW = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
STEP = {"strides": [1, 1, 1, 1], "padding": "SAME"}
SEGMENTS = np.arange(32, dtype=np.int32) // 4
DIAGONAL = np.array([[k, k] for k in range(20)], np.int64)


def _half() -> list[Case]:
    cases = []
    for dtype in ("bfloat16", "float16"):
        image, weights, out = Input((8, 12, 12, 12), dtype), Input((3, 3, 12, 4), dtype), Input((8, 12, 12, 4), dtype)
        depthwise = Input((3, 3, 12, 1), dtype)
        sizes = {"input_sizes": c(8, 12, 12, 12), "filter_sizes": c(3, 3, 12, 4)}
        cases += [
            Case("Conv2D", {"input": image, "filter": weights}, STEP),
            Case(
                "Conv2DBackpropInput",
                {"input_sizes": sizes["input_sizes"], "filter": weights, "out_backprop": out},
                STEP,
            ),
            Case(
                "Conv2DBackpropFilter",
                {"input": image, "filter_sizes": sizes["filter_sizes"], "out_backprop": out},
                STEP,
            ),
            Case("DepthwiseConv2dNative", {"input": image, "filter": depthwise}, STEP),
            Case(
                "DepthwiseConv2dNativeBackpropFilter",
                {"input": image, "filter_sizes": c(3, 3, 12, 1), "out_backprop": image},
                STEP,
            ),
            Case("Mean", {"input": image, "axis": c(0, 1, 2)}),
            Case("Softmax", {"logits": Input((4, 8, 10, 10), dtype)}),
            Case("BiasAddGrad", {"out_backprop": Input((64, 50), dtype)}),
            Case(
                "UnsortedSegmentSum", {"data": Input((64, 100), dtype), "segment_ids": i(64), "num_segments": scalar(8)}
            ),
            Case(
                "Einsum",
                {"inputs": [Input((8, 10, 4, 6), dtype), Input((8, 12, 4, 6), dtype)]},
                {"equation": "aecd,abcd->acbe"},
            ),
            Case("ResizeBilinearGrad", {"grads": f(4, 20, 20, 8), "original_image": Input((4, 10, 10, 8), dtype)}),
        ]
    return cases


def _cells() -> list[Case]:
    states = {key: f(16, 32) for key in ("i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad", "cs_prev", "h_prev")}
    weights = {"w": f(56, 128), "wci": f(32), "wcf": f(32), "wco": f(32), "b": f(128)}
    gates = {key: f(16, 32) for key in ("h_prev", "r", "u", "c", "d_h")}
    products = {"w_ru": f(56, 64), "w_c": f(56, 32), "b_ru": f(64), "b_c": f(32)}
    return [
        Case("LSTMBlockCellGrad", {"x": f(16, 24), **states, **weights}, {"use_peephole": False}),
        Case("GRUBlockCellGrad", {"x": f(16, 24), **gates, **products}),
    ]


def _images() -> list[Case]:
    patches = {"ksizes": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
    statistics = {"scale": f(32), "offset": f(32), "mean": f(0), "variance": f(0)}
    argmax = {"input": f(8, 16, 16, 8), "grad": f(8, 8, 8, 8), "argmax": i(8, 8, 8, 8, dtype="int64")}
    return [
        Case("Conv2D", {"input": f(8, 28, 28, 16), "filter": f(3, 3, 16, 8)}, {**STEP, "dilations": [1, 2, 2, 1]}),
        Case("FusedBatchNormV3", {"x": f(8, 32, 10, 10), **statistics}, {"data_format": "NCHW"}),
        Case("MaxPoolGradWithArgmax", argmax, WINDOW),
        Case("ExtractImagePatches", {"images": f(4, 10, 10, 8)}, patches),
        Case("Dilation2D", {"input": f(4, 10, 10, 8), "filter": f(3, 3, 8)}, {**STEP, "rates": [1, 1, 1, 1]}),
        Case("AdjustContrastv2", {"images": f(4, 10, 10, 3), "contrast_factor": f()}),
        Case("RGBToHSV", {"images": f(4, 10, 10, 3)}),
    ]


def _rare() -> list[Case]:
    gradient = {"grad": f(8, 100), "indices": i(32), "segment_ids": SEGMENTS, "output_dim0": scalar(64)}
    sparse = {"a_indices": DIAGONAL, "a_values": f(20), "a_shape": np.array([50, 30], np.int64), "b": f(50, 20)}
    dense = {"output_shape": np.array([100], np.int64), "sparse_values": f(20), "default_value": f()}
    labels = {
        "labels_indices": np.array([[0, 0], [1, 0]], np.int64),
        "labels_values": c(1, 2),
        "sequence_length": c(20, 20),
    }
    sizes = {"num_rows": scalar(-1), "num_cols": scalar(-1), "padding_value": f()}
    return [
        Case("SparseSegmentSumGrad", gradient),
        Case("SparseTensorDenseMatMul", sparse, {"adjoint_a": True}),
        Case("SparseToDense", {"sparse_indices": np.arange(20, dtype=np.int64)[:, None], **dense}),
        Case("CTCLoss", {"inputs": f(20, 2, 10), **labels}),
        # The rows are spread over threads; how many of them meet is chance.
        replace(Case("Multinomial", {"logits": f(64, 100), "num_samples": scalar(5)}), chance=0.8),
        Case("MatrixDiagV3", {"diagonal": f(50), "k": scalar(0), **sizes}),
        Case("DiagPart", {"input": f(50, 50)}),
        Case("Lu", {"input": f(20, 20)}),
        Case("Svd", {"input": f(20, 10)}),
        Case("FFT", {"input": Input((64, 64), "complex64")}),
        Case("RFFT", {"input": f(64, 64), "fft_length": c(64)}),
        Case("ReverseSequence", {"input": f(8, 10, 16), "seq_lengths": i(8, high=9)}, {"seq_dim": 1, "batch_dim": 0}),
        Case("UniqueV2", {"x": i(640), "axis": np.array([], np.int32)}),
        Case("ListDiff", {"x": i(640), "y": i(20, high=3)}),
        Case("LinSpace", {"start": f(), "stop": f(), "num": scalar(100)}),
        Case(
            "HistogramFixedWidth", {"values": f(640), "value_range": np.array([0, 1], np.float32), "nbins": scalar(10)}
        ),
        Case("NthElement", {"input": f(64, 100), "n": scalar(5)}),
        Case("Betainc", {"a": f(640), "b": f(640), "x": f(640)}),
        Case("Bucketize", {"input": f(640)}, {"boundaries": [0.1, 0.5]}),
        Case("ResourceScatterNdUpdate", {"ref": Variable((64, 100)), "indices": i(32, 1), "updates": f(32, 100)}),
        Case("AssignVariableOp", {"resource": Variable((64, 100)), "value": f(64, 100)}),
    ]


def _common() -> list[Case]:
    pair = {"x": f(64, 100), "y": f(64, 100)}
    bits = {"x": i(64, 100), "y": i(64, 100)}
    truths = {"x": Input((64, 100), "bool"), "y": Input((64, 100), "bool")}
    cases = [Case(op, pair) for op in ("Less", "GreaterEqual", "LessEqual", "FloorDiv", "Atan2", "Equal")]
    cases += [
        Case(op, {"x": f(64, 100)})
        for op in ("Erfc", "IsNan", "Ceil", "Cos", "Tan", "Lgamma", "Digamma", "Expint", "BesselJ0")
    ]
    return [
        *cases,
        Case("BitwiseAnd", bits),
        Case("PopulationCount", {"x": i(64, 100)}),
        Case("FakeQuantWithMinMaxVars", {"inputs": f(64, 100), "min": f(), "max": f()}),
        Case("FakeQuantWithMinMaxArgs", {"inputs": f(64, 100)}),
        Case("FakeQuantWithMinMaxArgsGradient", {"gradients": f(64, 100), "inputs": f(64, 100)}),
        Case("Empty", {"shape": c(64, 100)}, {"dtype": "float32"}),
        Case("LogicalOr", truths),
        Case("Select", {"condition": Input((), "bool"), "x": f(64, 100), "y": f(64, 100)}),
        Case("InvertPermutation", {"x": Input((1,), "int32", 1)}),
        Case("AssignSubVariableOp", {"resource": Variable((64, 100)), "value": f(64, 100)}),
        Case("ResourceScatterSub", {"resource": Variable((64, 100)), "indices": i(32), "updates": f(32, 100)}),
        Case(
            "EmptyTensorList",
            {"element_shape": c(64, 100), "max_num_elements": i(high=1)},
            {"element_dtype": "float32"},
        ),
        Case("_UnaryOpsComposition", {"x": f(64, 100)}, {"op_names": ["Sqrt", "Neg"]}),
    ]


MORE_CASES: list[Case] = [*_common(), *_half(), *_cells(), *_images(), *_rare()]
