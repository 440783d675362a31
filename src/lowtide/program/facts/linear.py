"""Matrix products and decompositions: kernels that pack their operands in memory outside the allocator."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.facts.shapes import elements, input_shape, known, output_shape
from lowtide.program.graph import NodeView


def _as_float32(node: NodeView) -> Sequence[int]:
    """A product of 16-bit floats is computed on float32 copies of both operands and of the result."""
    if node.input_dtype(0) not in ("bfloat16", "float16") or node.input_dtype(0) != node.input_dtype(1):
        return ()
    shapes = (input_shape(node, 0), input_shape(node, 1), output_shape(node))
    return [elements(shape) * 4 for shape in shapes]


register("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3", OpFact(temporaries=known(_as_float32)))
# The fused kernel exists for float32 only. Bias and activation are applied in place.
register("_FusedMatMul", OpFact())
register("SparseMatMul SparseTensorDenseMatMul", OpFact())
register("Cross", OpFact())

register("MatrixBandPart MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3", OpFact(forwards=((0, 0),)))
register("MatrixSolve MatrixTriangularSolve BatchMatrixBandPart", OpFact())
register(
    """MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 Diag DiagPart
    TridiagonalSolve TridiagonalMatMul MatrixSolveLs""",
    OpFact(),
)


def _any_input(node: NodeView) -> Sequence[tuple[int, int]]:
    """Each output reuses the first input that fits and is not reused yet."""
    return [(output, index) for output in range(node.output_count) for index in range(node.input_count)]


register(
    """Cholesky CholeskyGrad MatrixInverse MatrixDeterminant LogMatrixDeterminant MatrixLogarithm MatrixSquareRoot
    Qr Svd SelfAdjointEigV2 Eig""",
    OpFact(forwards=_any_input),
)
register("Lu", OpFact(forwards=((0, 0),)))
