"""All facts: importing this module states every op that is known."""

from __future__ import annotations

from lowtide.graph import (
    facts_arrays,
    facts_einsum,
    facts_elementwise,
    facts_linear,
    facts_neural,
    facts_random,
    facts_reductions,
    facts_state,
)
from lowtide.graph.facts import fact_of, known_ops

__all__ = ["fact_of", "known_ops"]
