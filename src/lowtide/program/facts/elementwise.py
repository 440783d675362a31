"""Elementwise ops: a kernel that reads and writes one element at a time works in place where possible."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.graph import NodeView

_UNARY = """
    Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1
    BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Ceil Conj Cos Cosh Dawsn Expint FresnelCos FresnelSin Spence
    Digamma Erf Erfc Erfinv Exp Expm1 Floor Imag Inv Invert IsFinite IsInf IsNan Lgamma Log Log1p LogicalNot
    Ndtri Neg Real Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh Sqrt Square Tan Tanh ComplexAbs
    Elu LeakyRelu Relu Relu6 Selu Softplus Softsign
    LogSoftmax Softmax OnesLike Snapshot ZerosLike _UnaryOpsComposition
"""

# Comparisons are here too: their result has another type, so they never reuse the buffer of an input, unless they
# compare booleans.
_BINARY = """
    Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Complex Div DivNoNan FloorDiv FloorMod
    Greater GreaterEqual LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan
    Polygamma Pow RealDiv RightShift SquaredDifference Sub TruncateDiv TruncateMod
    Xdivy Xlog1py Xlogy Zeta Igamma Igammac IgammaGradA Equal NotEqual ApproximateEqual NextAfter
    EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad
    SoftplusGrad SoftsignGrad SqrtGrad TanhGrad
"""

# Ops that read and write one element at a time.
ELEMENTWISE = frozenset(
    f"{_UNARY} {_BINARY} BiasAdd BiasAddV1 ClipByValue AddN AccumulateNV2 Select SelectV2 Cast".split()
)


def _all_inputs(node: NodeView) -> Sequence[tuple[int, int]]:
    return [(0, index) for index in range(node.input_count)]


def _single_input(node: NodeView) -> Sequence[tuple[int, int]]:
    return [(0, 0)] if node.input_count == 1 else []


def _same_type(node: NodeView) -> Sequence[tuple[int, int]]:
    return [(0, 0)] if node.input_dtype(0) == node.output_dtype(0) else []


register(_UNARY, OpFact(forwards=((0, 0),)))
register(_BINARY, OpFact(forwards=((0, 0), (0, 1))))
register("BiasAdd BiasAddV1 ClipByValue", OpFact(forwards=((0, 0),)))
register("AddN AccumulateNV2", OpFact(aliases=_single_input, forwards=_all_inputs))
register("SelectV2", OpFact(forwards=((0, 1), (0, 2))))
register("Betainc PopulationCount", OpFact())
# A cast between equal types is a view; any other allocates a new buffer.
register("Cast", OpFact(aliases=_same_type))


def _select_aliases(node: NodeView) -> Sequence[tuple[int, int]]:
    """A scalar condition selects one of the two buffers; which one is known only at run time."""
    return [(0, 1)] if node.input_shape(0) == () else []


register("Select", OpFact(aliases=_select_aliases, forwards=((0, 1), (0, 2))))
