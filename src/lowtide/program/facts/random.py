"""Random numbers: most kernels allocate their output only."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.facts.shapes import input_shape, known
from lowtide.program.graph import NodeView
from lowtide.program.machine import current_machine

register(
    """ParameterizedTruncatedNormal RandomGamma RandomGammaGrad RandomPoisson RandomPoissonV2
    RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal
    StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2
    StatelessRandomGammaV3 StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
    StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform
    StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
    StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle StatelessTruncatedNormal
    StatelessTruncatedNormalV2 StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal
    StatefulUniform StatefulUniformFullInt StatefulUniformInt StatefulRandomBinomial
    RngReadAndSkip RngSkip NonDeterministicInts RandomIndexShuffle""",
    OpFact(),
)
register("RandomShuffle", OpFact())


def _cumulated_row(node: NodeView) -> Sequence[int]:
    """Each thread accumulates the probabilities of one row at a time, in double precision."""
    batch, classes = input_shape(node, 0)
    return [8 * classes] * min(batch, current_machine().intra_op_threads)


register("Multinomial StatelessMultinomial", OpFact(temporaries=known(_cumulated_row)))
