"""Constants that TensorFlow computes before the first step, after the graph was handed to the executor.

A last optimizer runs on each partition when its executor is made, later than any graph that TensorFlow shows: what
depends on constants alone is computed once, and kept. The gradient of a mean over a batch of fixed size is such a
tensor: it takes its bytes for ever, not for a moment. A node stays where another waits for it, even if nobody reads
what it makes.
"""

from __future__ import annotations

from collections import deque

from lowtide.program.dtypes import RESOURCE, VARIANT
from lowtide.program.facts.catalog import fact_of
from lowtide.program.graph import Graph
from lowtide.program.values import LARGEST_VALUE, Value, propagate_values

# TensorFlow's own bound for what it keeps.
LARGEST_FOLDED_BYTES = 10 << 20

# Ops with a state, control flow, calls and what leaves the graph are never computed beforehand.
_NOT_FOLDED = tuple(
    "_ Random Multinomial TruncatedNormal ParameterizedTruncatedNormal Resource ReadVariable Assign VarHandle VarIs "
    "Variable Placeholder NoOp Iterator Optional TensorList EmptyTensorList Print Assert Stateful Partitioned "
    "Stateless If While Case Switch Merge Enter Exit NextIteration LoopCond Ref Temporary DestroyTemporary Xla Send "
    "Recv PyFunc EagerPyFunc Stack TensorArray Rng Anonymous Lookup Collective Barrier Queue".split()
)
_FOLDED_NONETHELESS = frozenset("StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2".split())


def fold_constants(graph: Graph) -> tuple[Graph, frozenset[int]]:
    """The graph with its computed constants as new nodes at the end, and the nodes that are no longer run."""
    constant = _constant_nodes(graph)
    values = propagate_values(graph, constant)
    folded = _folded_tensors(graph, constant, values)
    if not folded:
        return graph, frozenset()
    result = _with_constants(graph, folded, constant, values)
    return result, _left_over(result, folded)


def _foldable(graph: Graph, node: int) -> bool:
    op = graph.ops[node]
    if op == "Const":
        return graph.dtypes[graph.first_output[node]] != RESOURCE
    if op.startswith(_NOT_FOLDED) and op not in _FOLDED_NONETHELESS:
        return False
    if any(graph.dtypes[tensor] in (RESOURCE, VARIANT) for tensor in graph.outputs_of(node)):
        return False
    return bool(graph.inputs_of(node)) and fact_of(op) is not None


def _constant_nodes(graph: Graph) -> list[int]:
    """Nodes whose data inputs are all constants, each after those it reads."""
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
    """Tensors that other nodes read and that depend on constants alone, if they are not constants themselves."""
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
            # A loop's end may hang on a small value: such a tensor is folded only if its value is carried along.
            if tensor in values or size > LARGEST_VALUE:
                folded.append(tensor)
    return folded


def _with_constants(graph: Graph, folded: list[int], constant: list[int], values: dict[int, Value]) -> Graph:
    """New nodes come last, so all that is known by node or tensor stays where it is."""
    waits = _waited_for(graph, constant)
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


def _waited_for(graph: Graph, constant: list[int]) -> dict[int, frozenset[int]]:
    """The nodes beside constants that a constant waits for, by itself or through what it reads."""
    producers = graph.producers()
    inside = set(constant)
    waits: dict[int, frozenset[int]] = {}
    for node in constant:
        sources = {*graph.controls_of(node), *(producers[tensor] for tensor in graph.inputs_of(node))}
        outside = frozenset(source for source in sources if source not in inside)
        waits[node] = outside.union(*(waits.get(source, frozenset()) for source in sources if source in inside))
    return waits


def _left_over(result: Graph, folded: list[int]) -> frozenset[int]:
    """Nodes that nobody reads or waits for any more. Those that nobody ever did were wanted for what they do."""
    producers = result.producers()
    readers = [0] * len(result)
    for tensor in result.inputs:
        readers[producers[tensor]] += 1
    for node in result.controls:
        readers[node] += 1
    left_over = set()
    stack = [node for node in {producers[tensor] for tensor in folded} if not readers[node]]
    while stack:
        node = stack.pop()
        if node in left_over:
            continue
        left_over.add(node)
        for source in (*(producers[tensor] for tensor in result.inputs_of(node)), *result.controls_of(node)):
            readers[source] -= 1
            if not readers[source] and _foldable(result, source):
                stack.append(source)
    return frozenset(left_over)
