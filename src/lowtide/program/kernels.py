"""The kernels that TensorFlow runs in place of a graph's ops."""

from __future__ import annotations

import dataclasses

from lowtide.program.graph import Graph

_ONEDNN = "_Mkl"
# oneDNN computes a bias gradient together with the filter gradient; without it, the node's outputs are unchanged.
_FUSED = "WithBias"


def with_kernels(graph: Graph, executed: Graph) -> Graph:
    """Return the graph with oneDNN's ops where the executed graph has them, because their temporary memory differs.

    TensorFlow inserts them after all other changes, so a graph that is to be edited does not have them yet.
    """
    kernels = {name: op for name, op in zip(executed.names, executed.ops, strict=True) if op.startswith(_ONEDNN)}
    ops = [_kernel(op, kernels.get(name, op)) for name, op in zip(graph.names, graph.ops, strict=True)]
    return dataclasses.replace(graph, ops=ops)


def _kernel(op: str, executed: str) -> str:
    """Return the executed op if it is a variant of `op`, and not a fusion of several ops."""
    plain = executed.removesuffix(_FUSED)
    return plain if plain.startswith(_ONEDNN) and plain.endswith(op.removeprefix("_")) else op
