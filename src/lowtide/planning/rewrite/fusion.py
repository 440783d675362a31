"""Which nodes a compiler computes on the fly, so that their results never lie in memory."""

from __future__ import annotations

from collections.abc import Collection

from lowtide.program.facts.elementwise import ELEMENTWISE
from lowtide.simulator.workload import COMPUTE, RETURN, Workload

# Beside elementwise ops, those that only say where an element is found.
_MOVES = frozenset(
    "BroadcastTo ConjugateTranspose OneHot Pad PadV2 ReverseV2 Slice StridedSlice Tile Transpose".split()
)
FUSIBLE = ELEMENTWISE | _MOVES


def fused_nodes(work: Workload, written: Collection[str]) -> frozenset[int]:
    """The nodes whose results are computed wherever they are read: all that could be, but for those in `written`.

    `written` names the nodes whose results the compiled program has buffers for.
    """
    graph = work.graph
    results = {tensor for node, role in enumerate(work.role) if role == RETURN for tensor in work.inputs[node]}
    return frozenset(
        node
        for node, op in enumerate(graph.ops)
        if op in FUSIBLE
        and work.role[node] == COMPUTE
        and graph.names[node] not in written
        and results.isdisjoint(work.outputs[node])
    )
