"""Constant folding: tensors that TensorFlow computes once, before the first step.

A last optimizer runs on each partition when its executor is created, later than any graph that TensorFlow shows. It
computes once, and keeps, every tensor that depends on constants alone. The gradient of a mean over a batch of fixed
size is such a tensor: it takes memory during the whole training, not only for a moment. A node that another node waits
for is kept, even if no node reads its outputs.
"""

from __future__ import annotations

from collections import deque

from lowtide.program.dtypes import RESOURCE, VARIANT
from lowtide.program.facts.catalog import fact_of
from lowtide.program.graph import Graph
from lowtide.program.values import LARGEST_VALUE, Value, propagate_values

# The largest tensor that TensorFlow folds.
LARGEST_FOLDED_BYTES = 10 << 20

# Ops with state, control flow, function calls and communication are never folded.
_NOT_FOLDED = tuple(
    "_ Random Multinomial TruncatedNormal ParameterizedTruncatedNormal Resource ReadVariable Assign VarHandle VarIs "
    "Variable Placeholder NoOp Iterator Optional TensorList EmptyTensorList Print Assert Stateful Partitioned "
    "Stateless If While Case Switch Merge Enter Exit NextIteration LoopCond Ref Temporary DestroyTemporary Xla Send "
    "Recv PyFunc EagerPyFunc Stack TensorArray Rng Anonymous Lookup Collective Barrier Queue".split()
)
_FOLDED_EXCEPTIONS = frozenset("StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2".split())


def fold_constants(graph: Graph) -> tuple[Graph, frozenset[int]]:
    """Return the graph with the folded constants as new nodes at the end, and the nodes that no longer run."""
    constant = _constant_nodes(graph)
    values = propagate_values(graph, constant)
    folded = _folded_tensors(graph, constant, values)
    if not folded:
        return graph, frozenset()
    result = _with_constants(graph, folded, constant, values)
    return result, _unused_nodes(result, folded)


def _foldable(graph: Graph, node: int) -> bool:
    op = graph.ops[node]
    if op == "Const":
        return graph.dtypes[graph.first_output[node]] != RESOURCE
    if op.startswith(_NOT_FOLDED) and op not in _FOLDED_EXCEPTIONS:
        return False
    if any(graph.dtypes[tensor] in (RESOURCE, VARIANT) for tensor in graph.outputs_of(node)):
        return False
    return bool(graph.inputs_of(node)) and fact_of(op) is not None


def _constant_nodes(graph: Graph) -> list[int]:
    """Return the nodes that depend on constants alone, each after its inputs."""
    readers: list[list[int]] = [[] for _ in range(len(graph))]
    producers = graph.producers()
    waiting = [len(graph.inputs_of(node)) for node in range(len(graph))]
    for node in range(len(graph)):
        for tensor in graph.inputs_of(node):
            readers[producers[tensor]].append(node)
    found = []
    queue = deque(node for node, op in enumerate(graph.ops) if op == "Const" and _foldable(graph, node))
    while queue:
        node = queue.popleft()
        found.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader] and _foldable(graph, reader):
                queue.append(reader)
    return found


def _folded_tensors(graph: Graph, constant: list[int], values: dict[int, Value]) -> list[int]:
    """Return the tensors that depend on constants alone, are no constants, and are read by nodes that do not fold."""
    inside = set(constant)
    wanted = {tensor for node in range(len(graph)) if node not in inside for tensor in graph.inputs_of(node)}
    folded = []
    for node in constant:
        if graph.ops[node] == "Const":
            continue
        for tensor in graph.outputs_of(node):
            size = graph.tensor_bytes(tensor)
            shape = graph.shapes[tensor]
            if tensor not in wanted or size is None or shape is None or -1 in shape or size > LARGEST_FOLDED_BYTES:
                continue
            # The end of a loop may depend on a small value: such a tensor is folded only if its value is known.
            if tensor in values or size > LARGEST_VALUE:
                folded.append(tensor)
    return folded


def _with_constants(graph: Graph, folded: list[int], constant: list[int], values: dict[int, Value]) -> Graph:
    """Add the folded constants as the last nodes, so that node and tensor ids stay valid."""
    waits = _control_sources(graph, constant)
    producers = graph.producers()
    replaced = {tensor: graph.tensor_count + position for position, tensor in enumerate(folded)}
    inputs = [replaced.get(tensor, tensor) for tensor in graph.inputs]
    made_by = [producers[tensor] for tensor in folded]
    controls, first_control = list(graph.controls), list(graph.first_control)
    for node in made_by:
        controls += sorted(waits.get(node, ()))
        first_control.append(len(controls))
    return Graph(
        names=graph.names + [f"{graph.names[node]}/folded" for node in made_by],
        ops=graph.ops + ["Const"] * len(folded),
        attributes=graph.attributes + [{} for _ in folded],
        first_input=graph.first_input + [len(inputs)] * len(folded),
        inputs=inputs,
        first_control=first_control,
        controls=controls,
        first_output=graph.first_output + [graph.tensor_count + 1 + position for position in range(len(folded))],
        dtypes=graph.dtypes + [graph.dtypes[tensor] for tensor in folded],
        shapes=graph.shapes + [graph.shapes[tensor] for tensor in folded],
        values=graph.values | {replaced[tensor]: values[tensor] for tensor in folded if tensor in values},
        variables=graph.variables,
        folded=range(len(graph), len(graph) + len(folded)),
    )


def _control_sources(graph: Graph, constant: list[int]) -> dict[int, frozenset[int]]:
    """Return the nodes that each constant waits for, directly or through its inputs, other than constants."""
    producers = graph.producers()
    inside = set(constant)
    waits: dict[int, frozenset[int]] = {}
    for node in constant:
        sources = {*graph.controls_of(node), *(producers[tensor] for tensor in graph.inputs_of(node))}
        outside = frozenset(source for source in sources if source not in inside)
        waits[node] = outside.union(*(waits.get(source, frozenset()) for source in sources if source in inside))
    return waits


def _unused_nodes(result: Graph, folded: list[int]) -> frozenset[int]:
    """Return the nodes that are no longer read or waited for. Nodes that never were are kept for their side effects."""
    producers = result.producers()
    readers = [0] * len(result)
    for tensor in result.inputs:
        readers[producers[tensor]] += 1
    for node in result.controls:
        readers[node] += 1
    unused = set()
    stack = [node for node in {producers[tensor] for tensor in folded} if not readers[node]]
    while stack:
        node = stack.pop()
        if node in unused:
            continue
        unused.add(node)
        for source in (*(producers[tensor] for tensor in result.inputs_of(node)), *result.controls_of(node)):
            readers[source] -= 1
            if not readers[source] and _foldable(result, source):
                stack.append(source)
    return frozenset(unused)
