"""Calls of compiled functions inside a step that is not compiled: what each borrows while it runs.

Keras compiles grouped convolutions on the CPU this way. The call stays one node of the executed graph; XLA's
buffer assignment for the function behind it tells its workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.program.dtypes import RESOURCE
from lowtide.program.graph import Graph, follow_handle
from lowtide.simulator.workload import WORKSPACE
from lowtide.tf.trace.trace import Program
from lowtide.tf.trace.xla.calls import is_compiled_call, xla_call_memory
from lowtide.tf.trace.xla.memory import XlaMemory

# Layers that are alike compile alike: what was compiled once is known for all of them.
_KNOWN: dict[bytes, XlaMemory] = {}


def size_compiled_calls(program: Program, graph: Graph) -> None:
    """State the workspace of every compiled call as an attribute of its node."""
    for index, memory in compiled_calls(program, graph):
        graph.attributes[index][WORKSPACE] = memory.workspace_bytes


def compiled_calls(program: Program, graph: Graph) -> Iterator[tuple[int, XlaMemory]]:
    """The nodes that call a compiled function, and the memory of that function; not those that cannot be compiled."""
    library = {function.signature.name: function for function in program.graph_def.library.function}
    for index, node in enumerate(program.graph_def.node):
        if not is_compiled_call(node):
            continue
        function = library.get(node.attr["f"].func.name)
        inputs = None if function is None else _inputs(program, graph, index)
        if inputs is None:
            continue
        key = _key(function, inputs)
        if key not in _KNOWN:
            try:
                _KNOWN[key] = xla_call_memory(function, inputs, list(library.values()))
            except (LowtideError, tf.errors.OpError, ValueError):
                # The node is then reported as not modelled.
                continue
        yield index, _KNOWN[key]


def _inputs(program: Program, graph: Graph, index: int) -> list[Any] | None:
    """A spec for each tensor and the real handle for each variable; None when a shape is open."""
    inputs: list[Any] = []
    captured = program.concrete.captured_inputs
    for tensor in graph.inputs_of(index):
        if graph.dtypes[tensor] == RESOURCE:
            argument = graph.attributes[graph.producer(follow_handle(graph, tensor))].get("index")
            if argument is None or argument < program.input_count:
                return None
            inputs.append(captured[argument - program.input_count])
            continue
        shape = graph.shapes[tensor]
        if shape is None or -1 in shape:
            return None
        inputs.append(tf.TensorSpec(shape, tf.as_dtype(graph.dtypes[tensor])))
    return inputs


def _key(function: Any, inputs: list[Any]) -> bytes:
    copy = type(function)()
    copy.CopyFrom(function)
    copy.signature.name = ""
    copy.ClearField("attr")
    shapes = [
        (str(given.shape), given.dtype.name) if isinstance(given, tf.TensorSpec) else str(given._handle_data)
        for given in inputs
    ]
    return copy.SerializeToString(deterministic=True) + repr(shapes).encode()
