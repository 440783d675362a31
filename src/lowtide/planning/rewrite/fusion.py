"""Which nodes a compiler fuses into their readers, so that their results are never in memory."""

from __future__ import annotations

from collections.abc import Collection

from lowtide.program.facts.elementwise import ELEMENTWISE
from lowtide.simulator.workload import COMPUTE, RETURN, Workload

# Besides elementwise ops, those that only map indices.
_MOVES = frozenset(
    "BroadcastTo ConjugateTranspose OneHot Pad PadV2 ReverseV2 Slice StridedSlice Tile Transpose".split()
)
FUSIBLE = ELEMENTWISE | _MOVES


def fused_nodes(work: Workload, written: Collection[str]) -> frozenset[int]:
    """Return the nodes whose results are computed wherever they are read: all fusible ones except those in `written`.

    `written` names the nodes whose results have a buffer in the compiled program.
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
