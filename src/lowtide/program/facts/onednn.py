"""The ops of oneDNN, with which TensorFlow's layout pass replaces ops of the traced graph.

TensorFlow enables them by default on processors with AVX512_VNNI, and on others with TF_ENABLE_ONEDNN_OPTS=1. They use
the same allocator as all other ops, except for memory that oneDNN allocates from the operating system: copies of
weights in blocked layouts and the scratchpads of backward convolutions, pooling and reorders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.program.facts import arrays, einsum  # noqa: F401  (their facts hold for the oneDNN variants, too)
from lowtide.program.facts.onednn_convolution import convolution_temporaries, depthwise_temporaries
from lowtide.program.facts.onednn_matmul import (
    batch_product_temporaries,
    fused_product_temporaries,
    product_temporaries,
)
from lowtide.program.facts.op_fact import OpFact, fact_of, register
from lowtide.program.facts.shapes import elements, item_bytes, known
from lowtide.program.graph import NodeView

_ADDEND = 3  # the input that a fused "Add" adds: after data, weights and bias


def _forwards_addend(node: NodeView) -> Sequence[tuple[int, int]]:
    """A fused addition writes to the addend's buffer, or to a copy of it if it has other references."""
    return [(0, _ADDEND)] if "Add" in (node.attribute("fused_ops") or ()) else []


def _pooling_workspace(node: NodeView) -> Mapping[int, int]:
    """The position of each maximum in its window, in one byte if that is enough."""
    shape = node.output_shape(0)
    window = elements(node.attribute("ksize"))
    return {} if shape is None else {1: elements(shape) * (1 if window <= 255 else 4)}


def _normalization_reserve(node: NodeView) -> Mapping[int, int]:
    """Only a fused Relu in training reserves memory: one bit for each element."""
    shape = node.output_shape(0)
    if "Ex" not in node.op or not node.attribute("is_training") or shape is None:
        return {5: 0}
    return {5: (elements(shape) + 7) // 8}


def _bias_gradient(node: NodeView) -> Mapping[int, int]:
    """One per output channel of the convolution; TensorFlow's shape function returns the input channels."""
    shape = node.input_shape(2)
    if shape is None:
        return {}
    channels = shape[-1] if str(node.attribute("data_format", "NHWC")).endswith("C") else shape[1]
    return {1: channels * item_bytes(node.output_dtype(0))}


_MAX_POOLS = "_MklMaxPool _MklMaxPool3D _MklNativeMaxPool _MklNativeMaxPool3D"
_NORMALIZATIONS_WITH_RESERVE = """
    _MklFusedBatchNormV3 _MklFusedBatchNormEx _MklNativeFusedBatchNormV3 _MklNativeFusedBatchNormEx
"""
_FILTER_GRADIENTS_WITH_BIAS = """
    _MklConv2DBackpropFilterWithBias _MklNativeConv2DBackpropFilterWithBias __MklDummyConv2DBackpropFilterWithBias
"""


_CONVOLUTIONS = """
    _MklConv2D _MklConv2DWithBias _MklConv3D _MklFusedConv2D _MklPadWithConv2D _MklPadWithFusedConv2D
    _MklNativeConv2D _MklNativeConv2DWithBias _MklNativeConv3D _MklNativeFusedConv2D _MklNativeFusedConv3D
    _MklNativePadWithConv2D _MklNativePadWithFusedConv2D
    __MklDummyConv2DWithBias __MklDummyPadWithConv2D __MklDummyPadWithFusedConv2D
"""
register(_CONVOLUTIONS, OpFact(forwards=_forwards_addend, temporaries=known(convolution_temporaries)))

_DEPTHWISE = """
    _MklDepthwiseConv2dNative _MklFusedDepthwiseConv2dNative
    _MklNativeDepthwiseConv2dNative _MklNativeFusedDepthwiseConv2dNative
"""
register(_DEPTHWISE, OpFact(temporaries=known(depthwise_temporaries)))

_GRADIENTS_OF_CONVOLUTIONS = """
    _MklConv2DBackpropFilter _MklConv2DBackpropInput
    _MklConv3DBackpropFilterV2 _MklConv3DBackpropInputV2
    _MklDepthwiseConv2dNativeBackpropFilter _MklDepthwiseConv2dNativeBackpropInput
    _MklNativeConv2DBackpropFilter _MklNativeConv2DBackpropInput
    _MklNativeConv3DBackpropFilterV2 _MklNativeConv3DBackpropInputV2
    _MklNativeDepthwiseConv2dNativeBackpropFilter _MklNativeDepthwiseConv2dNativeBackpropInput
"""
register(_GRADIENTS_OF_CONVOLUTIONS, OpFact())
register(_FILTER_GRADIENTS_WITH_BIAS, OpFact(sizes=_bias_gradient))

register("_MklMatMul", OpFact(temporaries=known(product_temporaries)))
register(
    "_MklFusedMatMul _MklNativeFusedMatMul",
    OpFact(forwards=_forwards_addend, temporaries=known(fused_product_temporaries)),
)
register(
    "_MklBatchMatMul _MklBatchMatMulV2 _MklFusedBatchMatMulV2", OpFact(temporaries=known(batch_product_temporaries))
)
register("_MklNativeSparseMatrixMatMul", OpFact())
# The same kernel except for the matrix product, which may allocate a scratchpad with AVX-512.
register("_MklEinsum", fact_of("Einsum") or OpFact())
register("_MklTranspose", fact_of("Transpose") or OpFact())
register("_MklConjugateTranspose _MklConcat _MklConcatV2 _MklQuantizedConcatV2", OpFact())

register(_MAX_POOLS, OpFact(sizes=_pooling_workspace))
register(
    """
    _MklAvgPool _MklAvgPool3D _MklAvgPool3DGrad _MklAvgPoolGrad _MklMaxPool3DGrad _MklMaxPoolGrad
    _MklNativeAvgPool _MklNativeAvgPool3D _MklNativeAvgPool3DGrad _MklNativeAvgPoolGrad
    _MklNativeMaxPool3DGrad _MklNativeMaxPoolGrad _MklQuantizedAvgPool _MklQuantizedMaxPool
    """,
    OpFact(),
)
register(_NORMALIZATIONS_WITH_RESERVE, OpFact(sizes=_normalization_reserve))
register(
    """
    _MklFusedBatchNorm _MklFusedBatchNormV2 _MklNativeFusedBatchNorm _MklNativeFusedBatchNormV2
    _MklFusedBatchNormGrad _MklFusedBatchNormGradV2 _MklFusedBatchNormGradV3
    _MklNativeFusedBatchNormGrad _MklNativeFusedBatchNormGradV2 _MklNativeFusedBatchNormGradV3
    _MklFusedInstanceNorm _MklLayerNorm
    """,
    OpFact(),
)
register("_MklSoftmax", OpFact(forwards=((0, 0),)))
register("_MklSwish _MklFusedMish _MklDequantize _MklQuantizeV2", OpFact())

_QUANTIZED_PRODUCTS = """
    _MklQuantizedConv2D _MklQuantizedConv2DAndRelu _MklQuantizedConv2DAndReluAndRequantize
    _MklQuantizedConv2DAndRequantize _MklQuantizedConv2DPerChannel _MklQuantizedConv2DWithBias
    _MklQuantizedConv2DWithBiasAndRelu _MklQuantizedConv2DWithBiasAndReluAndRequantize
    _MklQuantizedConv2DWithBiasAndRequantize _MklQuantizedConv2DWithBiasSignedSumAndReluAndRequantize
    _MklQuantizedConv2DWithBiasSumAndRelu _MklQuantizedConv2DWithBiasSumAndReluAndRequantize
    _MklQuantizedDepthwiseConv2D _MklQuantizedDepthwiseConv2DWithBias _MklQuantizedDepthwiseConv2DWithBiasAndRelu
    _MklQuantizedDepthwiseConv2DWithBiasAndReluAndRequantize
    _MklQuantizedMatMulWithBias _MklQuantizedMatMulWithBiasAndDequantize _MklQuantizedMatMulWithBiasAndRelu
    _MklQuantizedMatMulWithBiasAndReluAndRequantize _MklQuantizedMatMulWithBiasAndRequantize
"""
register(_QUANTIZED_PRODUCTS, OpFact())
