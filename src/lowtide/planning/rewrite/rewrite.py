"""A Rewrite: what a plan changes in a graph, by node name."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.program.graph import Shape


@dataclass(frozen=True)
class Rewrite:
    """Edits of a graph: copies of nodes, changed inputs, and control edges.

    References are written as in a GraphDef: `name` or `name:port`.
    """

    copies: tuple[tuple[str, str], ...] = ()
    """New nodes: (name, original). A copy has the inputs of its original, except where `inputs` changes them."""
    inputs: tuple[tuple[str, int, str], ...] = ()
    """Changed inputs: (node, position among its data inputs, new reference)."""
    barriers: tuple[tuple[str, str], ...] = ()
    """New nodes that only wait: (name, the last node that it waits for, whose device it is on)."""
    controls: tuple[tuple[str, str], ...] = ()
    """Control edges: (before, after)."""
    ties: tuple[tuple[str, str, str], ...] = ()
    """New nodes: (name, reference it returns, reference it waits for). XLA ignores control edges but not a tie, which
    is computed from both references although only the first one determines its value."""
    in_place: tuple[tuple[str, Shape], ...] = ()
    """Assignments that write into the variable's own buffer: (node, shape of the variable)."""
