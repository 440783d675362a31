"""A Workload: a Graph with shapes, resolved by the op facts into what the executor needs to know about each node.

Everything that depends only on the program is computed here once, so that the executor's inner loop, which runs several
times, uses integers only.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lowtide.program.constant_folding import fold_constants
from lowtide.program.dtypes import RESOURCE, VARIANT, element_bytes
from lowtide.program.facts.catalog import fact_of
from lowtide.program.facts.op_fact import OpFact
from lowtide.program.graph import Graph, follow_handle
from lowtide.simulator.costs import node_cost_us
from lowtide.simulator.tuning import CHEAP_KERNEL_US

# How the executor treats a node.
(
    COMPUTE,
    ARGUMENT,
    CONSTANT,
    RETURN,
    READ,
    ASSIGN,
    UPDATE,
    SWITCH,
    MERGE,
    ENTER,
    EXIT,
    NEXT,
    LIST,
    NOTHING,
) = range(14)

_ROLES = {
    "_Arg": ARGUMENT,
    "_DeviceArg": ARGUMENT,
    "Placeholder": ARGUMENT,
    "Const": CONSTANT,
    "_Retval": RETURN,
    "_DeviceRetval": RETURN,
    "ReadVariableOp": READ,
    "AssignVariableOp": ASSIGN,
    "AssignAddVariableOp": UPDATE,
    "AssignSubVariableOp": UPDATE,
    "Switch": SWITCH,
    "RefSwitch": SWITCH,
    "Merge": MERGE,
    "RefMerge": MERGE,
    "Enter": ENTER,
    "RefEnter": ENTER,
    "Exit": EXIT,
    "RefExit": EXIT,
    "NextIteration": NEXT,
    "RefNextIteration": NEXT,
    "NoOp": NOTHING,
    "ControlTrigger": NOTHING,
    "VarHandleOp": NOTHING,
}

_LIST_OPS = frozenset(
    "EmptyTensorList TensorListReserve TensorListFromTensor TensorListSetItem TensorListGetItem TensorListPushBack "
    "TensorListPopBack TensorListStack TensorListGather TensorListConcatV2 TensorListLength TensorListResize "
    "TensorListScatterV2 TensorListElementShape TensorListPushBackBatch OptionalFromValue OptionalGetValue".split()
)


# Ops that call a function, whose memory the graph does not show.
_CALLS = frozenset(
    "PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case StatelessCase".split()
)


def _role(op: str) -> int:
    if op.startswith("ResourceApply"):
        return UPDATE
    return _ROLES.get(op, LIST if op in _LIST_OPS else COMPUTE)


@dataclass(slots=True)
class Workload:
    """What one step requires of the executor, by node and by tensor."""

    graph: Graph
    role: list[int]
    cheap: list[bool]
    cost_us: list[float]
    pending: list[int]
    roots: list[int]
    successors: list[Sequence[int]]
    """The nodes to notify when a node has finished, one entry per edge: data edges first, then control edges."""
    inputs: list[Sequence[int]]
    outputs: list[range]
    reader_counts: list[int]
    """The number of edges that read each tensor."""
    sizes: list[int]
    """Requested bytes of each tensor's own buffer."""
    buffer_reuses: list[Sequence[tuple[int, int, bool]]]
    """Per node: (output tensor, input tensor, always): reuse the input's buffer, always or if it is not shared."""
    temporaries: list[Sequence[int]]
    """Per node: bytes of the kernel's temporaries."""
    variable_of: dict[int, int]
    """The variable behind each resource tensor, as the tensor id of its handle."""
    sparse: frozenset[int]
    """Variables that are read or written in parts: TensorFlow copies them on every full read or update."""
    control_flow: bool
    build_order: list[int] = field(default_factory=list)
    """The nodes in the order in which TensorFlow builds the graph that it runs."""
    unordered_fanouts: list[int] = field(default_factory=list)
    """Nodes with more outgoing edges than TensorFlow keeps in order: it notifies their readers in hash order."""
    folded_away: frozenset[int] = frozenset()
    """Nodes that do not run because constant folding replaced their outputs."""
    unknown: dict[str, list[int]] = field(default_factory=dict)
    """Nodes whose op has no fact, by op."""
    unsized: list[int] = field(default_factory=list)
    """Tensors of unknown shape."""


# The attribute of a call of a compiled function with the bytes of its temporary memory; the tracer sets it.
WORKSPACE = "lowtide_workspace_bytes"


def build_workload(graph: Graph, fold: bool = True) -> Workload:
    """Resolve facts, sizes and edges of a graph whose shapes are known.

    TensorFlow folds constants when it builds the graph that it runs. Do not `fold` a graph that is still to be edited,
    because its edits may refer to the folded nodes.
    """
    graph, folded_away = fold_constants(graph) if fold else (graph, frozenset[int]())
    count = len(graph)
    sizes, unsized = _tensor_sizes(graph)
    roles = [_role(op) for op in graph.ops]
    for node, op in enumerate(graph.ops):
        if op in ("ZerosLike", "AddN") and graph.dtypes[graph.first_output[node]] == VARIANT:
            roles[node] = LIST
    work = Workload(
        graph=graph,
        role=roles,
        cheap=[False] * count,
        cost_us=[0.0] * count,
        pending=[0] * count,
        roots=[],
        successors=[],
        inputs=[graph.inputs_of(node) for node in range(count)],
        outputs=[graph.outputs_of(node) for node in range(count)],
        reader_counts=[0] * graph.tensor_count,
        sizes=sizes,
        buffer_reuses=[()] * count,
        temporaries=[()] * count,
        variable_of=(variable_of := _variables(graph)),
        sparse=_sparse_variables(graph, variable_of),
        control_flow=any(SWITCH <= role <= NEXT for role in roles),
        folded_away=folded_away,
        unsized=[tensor for tensor in unsized if graph.producer(tensor) not in folded_away] if folded_away else unsized,
    )
    _link(work, construction_order(graph, folded_away))
    for node in range(count):
        if node not in folded_away:
            _resolve(work, node)
    for node in _nodes_in_loops(work) if work.control_flow else ():
        # The executor measures expensive kernels, and after some 90 runs it treats those that are short as cheap.
        work.cheap[node] |= work.cost_us[node] < CHEAP_KERNEL_US
    return work


def _nodes_in_loops(work: Workload) -> set[int]:
    """Return the nodes of loop bodies: what depends on an `Enter`, up to the `Exit`s."""
    found = {node for node, role in enumerate(work.role) if role == ENTER}
    waiting = list(found)
    while waiting:
        for reader in work.successors[waiting.pop()]:
            if reader not in found and work.role[reader] != EXIT:
                found.add(reader)
                waiting.append(reader)
    return found


def _tensor_sizes(graph: Graph) -> tuple[list[int], list[int]]:
    sizes, unsized = [0] * graph.tensor_count, []
    for tensor, shape in enumerate(graph.shapes):
        if shape is None or -1 in shape:
            if graph.dtypes[tensor] == RESOURCE:
                sizes[tensor] = element_bytes(RESOURCE)
            else:
                unsized.append(tensor)
                sizes[tensor] = element_bytes(graph.dtypes[tensor])
        else:
            sizes[tensor] = math.prod(shape) * element_bytes(graph.dtypes[tensor])
    return sizes, unsized


# TensorFlow keeps up to this many outgoing edges of a node in order.
MOST_ORDERED_EDGES = 8


def with_places(work: Workload, places: Sequence[int]) -> Workload:
    """Return the same workload with nodes at other places in the file."""
    graph = work.graph
    result = replace(work, pending=[0] * len(graph), roots=[], reader_counts=[0] * graph.tensor_count)
    _link(result, construction_order(graph, work.folded_away, places))
    return result


def _link(work: Workload, order: list[int]) -> None:
    """Set the edges of a workload; readers of a node are notified in the order in which they were built."""
    graph = work.graph
    work.build_order = order
    producer = graph.producers()
    data: list[list[int]] = [[] for _ in range(len(graph))]
    control: list[list[int]] = [[] for _ in range(len(graph))]
    for node in order:
        inputs, controls = work.inputs[node], graph.controls_of(node)
        for tensor in inputs:
            data[producer[tensor]].append(node)
            work.reader_counts[tensor] += 1
        for source in controls:
            control[source].append(node)
        work.pending[node] = len(inputs) + len(controls)
        if not work.pending[node]:
            work.roots.append(node)
    work.successors = [first + second for first, second in zip(data, control, strict=True)]
    work.unordered_fanouts = [node for node, edges in enumerate(work.successors) if len(edges) > MOST_ORDERED_EDGES]


_FIRST = frozenset({"_Arg", "_DeviceArg"})
_LAST = frozenset({"_Retval", "_DeviceRetval"})


def construction_order(
    graph: Graph, folded_away: frozenset[int] = frozenset(), places: Sequence[int] | None = None
) -> list[int]:
    """Return the order in which TensorFlow builds the graph that it runs; readers are notified in this order.

    Arguments come first and results last; any other node follows when its inputs have been built, in the order of the
    file, or by `places`, one for each node. The back edges of loops do not count. Folded constants are added after all
    other nodes.
    """
    kinds = [0 if op in _FIRST else 2 if op in _LAST else 1 for op in graph.ops]
    for node in graph.folded:
        kinds[node] = 3
    rank = list(zip(kinds, range(len(graph)) if places is None else places, strict=True))
    producer = graph.producers()
    order = sorted(range(len(graph)), key=rank.__getitem__)
    if not _comes_after_its_inputs(graph, order, producer):
        order = _by_readiness(graph, rank, producer)
    return [node for node in order if node not in folded_away] if folded_away else order


def _waits_for(graph: Graph, node: int, producer: list[int]) -> list[int]:
    sources = [producer[tensor] for tensor in graph.inputs_of(node)]
    sources += graph.controls_of(node)
    if graph.folded:
        sources = [source for source in sources if source not in graph.folded]
    if graph.ops[node] == "Merge":
        return [source for source in sources if graph.ops[source] != "NextIteration"]
    return sources


def _comes_after_its_inputs(graph: Graph, order: list[int], producer: list[int]) -> bool:
    """Whether each node comes after its inputs. Most files are in such an order, and need no sorting."""
    position = [0] * len(graph)
    for place, node in enumerate(order):
        position[node] = place
    return all(
        position[source] < place for place, node in enumerate(order) for source in _waits_for(graph, node, producer)
    )


def _by_readiness(graph: Graph, rank: list[tuple[int, int]], producer: list[int]) -> list[int]:
    readers: list[list[int]] = [[] for _ in range(len(graph))]
    waiting = [0] * len(graph)
    for node in range(len(graph)):
        for source in _waits_for(graph, node, producer):
            readers[source].append(node)
            waiting[node] += 1
    ready = [(rank[node], node) for node in range(len(graph)) if not waiting[node]]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, (rank[reader], reader))
    return order


def _resolve(work: Workload, node: int) -> None:
    graph = work.graph
    fact = fact_of(graph.ops[node])
    workspace = graph.attributes[node].get(WORKSPACE)
    if graph.ops[node] in _CALLS:
        fact = None if workspace is None else OpFact(temporaries=lambda view: [workspace])
    if fact is None:
        if work.role[node] == COMPUTE:
            work.unknown.setdefault(graph.ops[node], []).append(node)
        fact = OpFact()
    work.cheap[node] = fact.cheap
    view = graph.view(node)
    first_output, inputs, outputs = graph.first_output[node], work.inputs[node], len(work.outputs[node])
    if fact.sizes is not None:
        for output, size in fact.sizes(view).items():
            if output >= outputs:
                # A kernel with more outputs than its op keeps the rest for the gradient, which reads the outputs too.
                if outputs:
                    work.sizes[first_output + outputs - 1] += size
                continue
            work.sizes[first_output + output] = size
            if first_output + output in work.unsized:
                work.unsized.remove(first_output + output)
    work.cost_us[node] = node_cost_us(graph, node, work.sizes)
    aliases = fact.aliases(view) if callable(fact.aliases) else fact.aliases
    forwards = fact.forwards(view) if callable(fact.forwards) else fact.forwards
    buffer_reuses = [
        (first_output + output, inputs[source], always)
        for pairs, always in ((aliases, True), (forwards, False))
        for output, source in pairs
        if output < outputs and source < len(inputs)
    ]
    # A kernel reuses the buffer of an input only for an output of the same size and dtype.
    work.buffer_reuses[node] = [
        (output, source, always)
        for output, source, always in buffer_reuses
        if always or (work.sizes[output] == work.sizes[source] and graph.dtypes[output] == graph.dtypes[source])
    ]
    if fact.temporaries is not None:
        work.temporaries[node] = [size for size in fact.temporaries(view) if size > 0]


def _variables(graph: Graph) -> dict[int, int]:
    """Return the argument or handle op that each resource tensor comes from, through control flow."""
    return {
        tensor: follow_handle(graph, tensor) for tensor in range(graph.tensor_count) if graph.dtypes[tensor] == RESOURCE
    }


def _sparse_variables(graph: Graph, variable_of: dict[int, int]) -> frozenset[int]:
    return frozenset(
        variable_of[graph.inputs_of(node)[0]]
        for node, op in enumerate(graph.ops)
        if op.startswith(("ResourceGather", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign"))
        and graph.inputs_of(node)[0] in variable_of
    )
