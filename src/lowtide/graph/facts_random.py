"""Random numbers: kernels write their output and nothing else."""

from __future__ import annotations

from lowtide.graph.facts import OpFact, register

register(
    """Multinomial ParameterizedTruncatedNormal RandomGamma RandomGammaGrad RandomPoisson RandomPoissonV2
    RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal
    StatelessMultinomial StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2
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
