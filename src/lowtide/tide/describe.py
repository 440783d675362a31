"""Turns a simulation into the columns of a tide: each buffer gets its name, layer, kind and lifetime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lowtide.program.dtypes import dtype_name, element_bytes
from lowtide.program.graph import Graph, Shape
from lowtide.simulator.simulate import Simulation
from lowtide.simulator.workload import Workload
from lowtide.tide.columns import Buffers, Curve
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.layers import find_layer, find_slot_layers, find_variable_layer, traced_node
from lowtide.tide.owner import Owner
from lowtide.tide.rows import columns_of

# Source lines are looked up for the largest tensors only, because finding one walks a Python traceback.
LARGEST_SOURCED = 24
_UINT8 = 4  # the number of this type in `program.dtypes`
# The number of ancestors that are searched for the layer of a node.
FARTHEST_ORIGIN = 32


@dataclass(frozen=True)
class Labels:
    """Names that the tracer knows: variables, layers and source lines."""

    variables: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Kind and name of the variable behind each handle, by the handle's tensor id."""
    layers: frozenset[str] = frozenset()
    source_of: Callable[[str], str | None] | None = None
    extra: tuple[tuple[str, str, int, Shape], ...] = ()
    """Variables outside the graph: kind, name, dtype and shape."""


def node_owners(graph: Graph, labels: Labels) -> dict[str, Owner]:
    """Return the op, layer and kind of every node, by its name."""
    naming = _BufferNaming(graph, labels)
    return {
        name: Owner(op=graph.ops[node], layer=naming.layer(of), kind=naming.kind(of))
        for node, name in enumerate(graph.names)
        for of in (naming.origin(node),)
    }


def describe(work: Workload, simulation: Simulation, labels: Labels) -> tuple[Buffers, Curve]:
    """Return the columns of the tide of one simulated step."""
    graph, stream = work.graph, simulation.stream
    count = len(stream.sizes)
    born, died = _lifetimes(simulation, count)
    allocated = np.array(simulation.replay.allocated_bytes, np.int64)
    allocated[stream.before] = simulation.held_before
    naming = _BufferNaming(graph, labels)
    owners = [
        naming.handle(owner) if buffer in stream.handles else naming.owner(owner)
        for buffer, owner in enumerate(stream.owner_ids)
    ]
    sources = _sources(owners, allocated, born, died, simulation, labels)
    requested = np.array(stream.sizes, np.int64)
    extra = labels.extra
    if simulation.other_bytes:
        extra += ((OUTSIDE, "held by the process besides the step", _UINT8, (simulation.other_bytes,)),)
    if extra:
        # They exist during the whole step.
        owners += [naming.variable(*variable) for variable in extra]
        sources += [None] * len(extra)
        sizes = np.array([math.prod(shape) * element_bytes(dtype) for _, _, dtype, shape in extra], np.int64)
        requested = np.concatenate([requested, sizes])
        allocated = np.concatenate([allocated, (sizes + 255) // 256 * 256])
        born = np.concatenate([born, np.zeros(len(sizes), np.int32)])
        died = np.concatenate([died, np.full(len(sizes), len(stream.events) + 1, np.int32)])
    buffers = columns_of(owners, requested=requested, allocated=allocated, born=born, died=died, source=sources)
    curve = Curve(
        bytes_in_use=np.concatenate([[simulation.bytes_before], simulation.replay.bytes_in_use]).astype(np.int64),
        node=np.array([stream.nodes[0] if stream.nodes else 0, *stream.nodes], np.int32),
        nodes=graph.names,
    )
    return buffers, curve


def _lifetimes(simulation: Simulation, count: int) -> tuple[np.ndarray, np.ndarray]:
    events = np.array(simulation.stream.events, np.int64)
    born = np.zeros(count, np.int32)
    died = np.full(count, len(events) + 1, np.int32)
    positions = np.arange(1, len(events) + 1, dtype=np.int32)
    allocations = events >= 0
    born[events[allocations]] = positions[allocations]
    died[~events[~allocations]] = positions[~allocations]
    return born, died


def _sources(
    owners: list[Owner],
    allocated: np.ndarray,
    born: np.ndarray,
    died: np.ndarray,
    simulation: Simulation,
    labels: Labels,
) -> list[str | None]:
    """Return the source lines of the largest buffers that are alive at the peak."""
    sources: list[str | None] = [None] * len(owners)
    if labels.source_of is None or not owners:
        return sources
    peak = int(np.argmax(simulation.replay.bytes_in_use)) + 1 if len(simulation.replay.bytes_in_use) else 0
    alive = np.flatnonzero((born <= peak) & (died > peak))
    for row in alive[np.argsort(-allocated[alive], kind="stable")][:LARGEST_SOURCED]:
        name = owners[row].name or ""
        sources[row] = labels.source_of(name.rpartition(":")[0] or name)
    return sources


class _BufferNaming:
    """Finds the owner of each buffer: name, layer and kind."""

    def __init__(self, graph: Graph, labels: Labels) -> None:
        self.graph = graph
        self.labels = labels
        self.producers = graph.producers()
        self.updates = _updates_of_sums(graph)
        self.layer_cache: dict[str, str | None] = {}
        self.inherited: dict[int, str | None] = {}
        named = [*labels.variables.values(), *((kind, path) for kind, path, _, _ in labels.extra)]
        weights, slots = ([path for kind, path in named if kind == each] for each in ("weights", "optimizer"))
        self.backward = _backward_nodes(graph, {path.partition("/")[0] for path in slots})
        self.slot_layers = find_slot_layers(slots, weights, labels.layers) if labels.layers else {}

    def owner(self, owner: int) -> Owner:
        """Return the owner of a buffer: a tensor id, or -1 - node for temporary memory of a kernel."""
        graph = self.graph
        if owner < 0:
            node = -1 - owner
            return Owner(*traced_node(graph.names[node], graph.ops[node]), self.layer(node), "workspace", "uint8")
        node = self.producers[owner]
        name, op = traced_node(graph.names[node], graph.ops[node])
        of = self.origin(node)
        if owner in graph.variables:
            kind, label = self.labels.variables.get(owner, ("weights", name))
            return self.variable(kind, label, *graph.variables[owner])
        port = owner - graph.first_output[node]
        inferred = graph.shapes[owner]
        shape = None if inferred is None or -1 in inferred else inferred
        dtype = dtype_name(graph.dtypes[owner])
        return Owner(f"{name}:{port}", op, self.layer(of), self.kind(of), dtype, shape)

    def origin(self, node: int) -> int:
        """Return the node that says what the output of a node is: itself, or for the zeros of a sum what is added."""
        name = self.graph.names[node]
        return self.updates.get(traced, node) if (traced := traced_node(name, "")[0]) != name else node

    def handle(self, owner: int) -> Owner:
        """Return the owner of a resource handle, which is a few bytes besides the variable itself."""
        name = self.graph.names[self.producers[owner]]
        return Owner(f"{name}:0", "_Arg", None, "other", "resource", ())

    def variable(self, kind: str, path: str, dtype: int, shape: Shape) -> Owner:
        layers = self.labels.layers
        layer = (
            self.slot_layers.get(path) if kind == "optimizer" else find_variable_layer(path, layers) if layers else None
        )
        return Owner(path, "Variable", layer, kind, dtype_name(dtype), shape)

    def kind(self, node: int) -> str:
        op = self.graph.ops[node]
        if op in ("_Arg", "_DeviceArg"):
            return "input"
        if op == "Const":
            return "constants"
        return "gradients" if self.backward[node] else "activations"

    def layer(self, node: int) -> str | None:
        """Return the Keras layer that a node belongs to.

        The ops of an optimizer are in no layer's scope: they belong to the layer whose gradient or weight they use.
        """
        if not self.labels.layers:
            return None
        own = self.layer_in_path(self.graph.names[node])
        if own is not None or not (self.backward[node] or self.graph.ops[node] in _AFTER_THEIR_INPUT):
            return own
        if node not in self.inherited:
            self.inherited[node] = self.inherit(node)
        return self.inherited[node]

    def layer_in_path(self, name: str) -> str | None:
        """Return the Keras layer in a node's path; cached, because many nodes share one path."""
        scope = name.rpartition("/")[0]
        if scope not in self.layer_cache:
            self.layer_cache[scope] = find_layer(name, self.labels.layers)
        return self.layer_cache[scope]

    def inherit(self, node: int) -> str | None:
        """Return the layer of the nearest ancestor that has one: a gradient, or a variable that is read."""
        waiting, seen = [node], {node}
        for current in waiting:
            if len(seen) > FARTHEST_ORIGIN:
                break
            for tensor in self.graph.inputs_of(current):
                producer = self.producers[tensor]
                if producer in seen:
                    continue
                seen.add(producer)
                layer = self.owner(tensor).layer if tensor in self.graph.variables else None
                if layer is None and (self.backward[producer] or not self.backward[node]):
                    layer = self.layer_in_path(self.graph.names[producer])
                if layer is not None:
                    return layer
                waiting.append(producer)
        return None


def _updates_of_sums(graph: Graph) -> dict[str, int]:
    """Return a node that adds to each sum that Grappler replaced by a temporary variable, by the name of the sum."""
    return {
        traced: node
        for node, name in enumerate(graph.names)
        if (traced := traced_node(name, "")[0]) != name and graph.ops[node] == "AssignAdd"
    }


def _backward_nodes(graph: Graph, optimizers: set[str]) -> list[bool]:
    """Return for each node whether it computes or uses gradients.

    These are the nodes in a gradient's or optimizer's scope, and all nodes that depend on them.
    """
    backward = [
        "gradient_tape/" in name or name.startswith("gradients/") or not optimizers.isdisjoint(name.split("/")[:-1])
        for name in graph.names
    ]
    readers: list[list[int]] = [[] for _ in range(len(graph))]
    producers = graph.producers()
    for node in range(len(graph)):
        for tensor in graph.inputs_of(node):
            readers[producers[tensor]].append(node)
    stack = [node for node in range(len(graph)) if backward[node] and graph.ops[node] not in _SHAPE_ONLY]
    while stack:
        for reader in readers[stack.pop()]:
            if not backward[reader]:
                backward[reader] = True
                stack.append(reader)
    return backward


# Ops that are created for one tensor and have no scope in their name.
_AFTER_THEIR_INPUT = frozenset(("ZerosLike", "OnesLike"))
# The optimizer may merge shape arithmetic of gradient functions with that of the forward pass.
_SHAPE_ONLY = frozenset("Shape ShapeN Const BroadcastGradientArgs Size Rank Prod Reshape".split())
