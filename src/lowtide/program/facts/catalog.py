"""All facts: importing this module registers every op that is modelled."""

from __future__ import annotations

from importlib import import_module

from lowtide.program.facts.op_fact import fact_of, known_ops

__all__ = ["fact_of", "known_ops"]

# The facts of oneDNN come last, because some repeat the fact of the op that they replace.
FAMILIES = ("arrays", "einsum", "elementwise", "linear", "neural", "random", "reductions", "state", "onednn")

for family in FAMILIES:
    import_module(f"lowtide.program.facts.{family}")
