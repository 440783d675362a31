"""A Rewrite: what a plan changes in a graph, in the names of that graph's nodes."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.program.graph import Shape


@dataclass(frozen=True)
class Rewrite:
    """Edits of a graph: copies of nodes, inputs that point elsewhere, and who waits for whom.

    References are written as in a GraphDef: `name` or `name:port`.
    """

    copies: tuple[tuple[str, str], ...] = ()
    """New nodes: (name, the node it is a copy of). A copy reads what its original reads, unless `inputs` says else."""
    inputs: tuple[tuple[str, int, str], ...] = ()
    """Inputs that change: (node, position among its data inputs, what it reads from now on)."""
    joints: tuple[tuple[str, str], ...] = ()
    """New nodes that only wait: (name, the node behind which it comes and on whose device it is)."""
    controls: tuple[tuple[str, str], ...] = ()
    """(before, after): the second waits for the first."""
    ties: tuple[tuple[str, str, str], ...] = ()
    """New nodes: (name, what it hands on, what it waits for). Where control edges do not hold, a tie does: it is
    computed from both, though only the first decides its value."""
    in_place: tuple[tuple[str, Shape], ...] = ()
    """Assignments that write into the buffer that the variable has: (node, shape of the variable)."""
