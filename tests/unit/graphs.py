"""Hand-made graphs, written as text, and the events of their steps as text.

    x = _Arg() [1000]                       float32 unless a type is named: int64[10], variant, resource
    y = Relu(x) [1000]
    a = Unpack(y, ^x) [500] [500]           several outputs are read as a and a:1; ^x waits for x
    e = Enter(y) [1000] frame_name="loop"   attributes are Python values

Nodes may be read before their line, as a loop's back edge is.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np

from lowtide.program.dtypes import DTYPES
from lowtide.program.graph import Graph, NodeView
from lowtide.simulator.allocation_stream import AllocationStream
from lowtide.simulator.workload import Workload, build_workload

NUMBERS = {name: number for number, (name, _) in DTYPES.items()}
_LINE = re.compile(r"(\S+) = (\w+)\((.*?)\)\s*(.*)")
_OUTPUT = re.compile(r"\s*(?:([a-z]\w*?)?\[([\d, -]*)\]|(resource|variant|float32\?))(?=\s|$)")
_ATTRIBUTE = re.compile(r"(\w+)=(\S+)")


def make_graph(
    text: str, values: dict[str, Any] | None = None, variables: dict[str, tuple[int, ...]] | None = None
) -> Graph:
    """The graph of a text; `values` are contents of constants, `variables` float32 shapes behind handles, by node."""
    rows = [_LINE.fullmatch(line.strip()).groups() for line in text.strip().splitlines() if line.strip()]
    graph = Graph([], [], [], [0], [], [0], [], [0], [], [])
    for name, op, _, rest in rows:
        graph.names.append(name)
        graph.ops.append(op)
        end = 0
        while match := _OUTPUT.match(rest, end):
            dtype, sizes, bare = match.groups()
            unknown = bare == "float32?"
            graph.dtypes.append(NUMBERS["float32" if unknown else bare or dtype or "float32"])
            graph.shapes.append(
                None if unknown else tuple(int(size) for size in (sizes or "").split(",") if size.strip())
            )
            end = match.end()
        graph.first_output.append(len(graph.dtypes))
        graph.attributes.append({key: ast.literal_eval(value) for key, value in _ATTRIBUTE.findall(rest[end:])})
    for _, _, inputs, _ in rows:
        for reference in filter(None, (part.strip() for part in inputs.split(","))):
            if reference.startswith("^"):
                graph.controls.append(graph.names.index(reference[1:]))
            else:
                graph.inputs.append(tensor(graph, reference))
        graph.first_input.append(len(graph.inputs))
        graph.first_control.append(len(graph.controls))
    graph.values = {tensor(graph, name): np.asarray(value) for name, value in (values or {}).items()}
    graph.variables = {tensor(graph, name): (NUMBERS["float32"], shape) for name, shape in (variables or {}).items()}
    return graph


def make_work(text: str, **details: Any) -> Workload:
    return build_workload(make_graph(text, **details))


def one_node(
    op: str,
    inputs: int,
    dtypes: list[int],
    shapes: list[tuple[int, ...] | None],
    attributes: dict[str, Any],
    values: dict[int, Any] | None = None,
) -> NodeView:
    """A graph of one node with a placeholder for each input; tensors are its inputs, then its outputs."""
    return Graph(
        names=[f"input{index}" for index in range(inputs)] + ["node"],
        ops=["Placeholder"] * inputs + [op],
        attributes=[{}] * inputs + [attributes],
        first_input=[0] * (inputs + 1) + [inputs],
        inputs=list(range(inputs)),
        first_control=[0] * (inputs + 2),
        controls=[],
        first_output=[*range(inputs + 1), len(shapes)],
        dtypes=dtypes,
        shapes=shapes,
        values=values or {},
    ).view(inputs)


def tensor(graph: Graph, reference: str) -> int:
    """The id of a tensor written as `name` or `name:port`."""
    name, _, port = reference.partition(":")
    return graph.first_output[graph.names.index(name)] + int(port or 0)


def event_names(work: Workload, stream: AllocationStream) -> list[str]:
    """The events of a step: `+y`, `-y`, `+y:1`, `+y!` for temporaries of the kernel of y, `+v*` for a variable."""
    graph = work.graph

    def word(buffer: int) -> str:
        owner = stream.owner_ids[buffer]
        if owner < 0:
            return graph.names[-1 - owner] + "!"
        node = graph.producer(owner)
        port = owner - graph.first_output[node]
        # A handle's own buffer is made before the step; later ones, and those of a variable's size, are the variable's.
        variable = owner in graph.variables and stream.sizes[buffer] == graph.variable_bytes(owner)
        return graph.names[node] + (f":{port}" if port else "") + ("*" if variable else "")

    return [f"+{word(event)}" if event >= 0 else f"-{word(~event)}" for event in stream.events]


def finished_nodes(work: Workload, stream: AllocationStream) -> list[str]:
    """The nodes in the order in which they finished."""
    return [work.graph.names[node] for node in stream.order]


def alive(stream: AllocationStream) -> set[int]:
    """The buffers that are alive after the step; fails on a double allocation or a double free."""
    living = set(stream.before)
    for event in stream.events:
        if event >= 0:
            assert event not in living
            living.add(event)
        else:
            assert ~event in living
            living.remove(~event)
    return living


def lasting(stream: AllocationStream) -> set[int]:
    """The buffers that should be alive after the step: those from before, with moved variables."""
    return {stream.renewed.get(buffer, buffer) for buffer in stream.before}


def peak_of(stream: AllocationStream) -> int:
    """The most requested bytes that are alive at once."""
    now = highest = sum(stream.sizes[buffer] for buffer in stream.before)
    for event in stream.events:
        now += stream.sizes[event] if event >= 0 else -stream.sizes[~event]
        highest = max(highest, now)
    return highest
