"""Kernels: what really runs in the place of a graph's ops."""

from __future__ import annotations

import dataclasses

from lowtide.program.graph import Graph

_ONEDNN = "_Mkl"
# oneDNN computes a bias gradient together with the gradient beside it. By itself the node makes what it made before.
_FUSED = "WithBias"


def with_kernels(graph: Graph, executed: Graph) -> Graph:
    """The same graph with oneDNN's ops where the executed graph has them: they take other temporary memory.

    TensorFlow puts them in when all other changes are made, so a graph that is to be edited does not have them yet.
    """
    kernels = {name: op for name, op in zip(executed.names, executed.ops, strict=True) if op.startswith(_ONEDNN)}
    ops = [_kernel(op, kernels.get(name, op)) for name, op in zip(graph.names, graph.ops, strict=True)]
    return dataclasses.replace(graph, ops=ops)


def _kernel(op: str, executed: str) -> str:
    """The executed op, if it is a version of the op and not something that was made of several."""
    plain = executed.removesuffix(_FUSED)
    return plain if plain.startswith(_ONEDNN) and plain.endswith(op.removeprefix("_")) else op
