"""Calls of functions with `jit_compile=True` from a step that is not compiled itself.

In the executed graph such a call is one node with the attribute `_XlaMustCompile`: neither Grappler nor the runtime
looks inside. It takes the memory of the compiled module: a workspace while it runs, and its outputs. Keras compiles
grouped convolutions on the CPU this way.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from lowtide.errors import LowtideError
from lowtide.program.dtypes import RESOURCE
from lowtide.program.graph import Graph, follow_handle
from lowtide.simulator.workload import WORKSPACE
from lowtide.tf.trace.trace import Program
from lowtide.tf.trace.xla.memory import (
    MUST_COMPILE,
    VARIABLE,
    XlaArgument,
    XlaMemory,
    compile_function,
    describe_input,
    read_memory,
)
from lowtide.tide.owner import Owner
from lowtide.units import format_count

_SUFFIX = "_lowtide_tensors_first"
# The memory of compiled functions, by their body and the shapes of their inputs: equal layers are compiled once.
_MEMORY: dict[bytes, XlaMemory] = {}


def size_compiled_calls(program: Program, graph: Graph) -> None:
    """Set the workspace of every compiled call as an attribute of its node."""
    for index, memory in compiled_calls(program, graph):
        graph.attributes[index][WORKSPACE] = memory.workspace_bytes


def compiled_calls(program: Program, graph: Graph) -> Iterator[tuple[int, XlaMemory]]:
    """Yield each node that calls a compiled function, with the memory of the call; skip what cannot be compiled."""
    library = {function.signature.name: function for function in program.graph_def.library.function}
    for index, node in enumerate(program.graph_def.node):
        if not is_compiled_call(node):
            continue
        function = library.get(node.attr["f"].func.name)
        inputs = None if function is None else _call_inputs(program, graph, index)
        if inputs is None:
            continue
        key = _key(function, inputs)
        if key not in _MEMORY:
            try:
                _MEMORY[key] = compile_call(function, inputs, list(library.values()))
            except (LowtideError, tf.errors.OpError, ValueError):
                # The node is reported as not modelled.
                continue
        yield index, _MEMORY[key]


def is_compiled_call(node: Any) -> bool:
    """Whether a NodeDef calls a function that XLA compiles as a whole."""
    return MUST_COMPILE in node.attr and bool(node.attr[MUST_COMPILE].b) and "f" in node.attr


def compile_call(function: Any, inputs: Sequence[Any], library: Iterable[Any] = ()) -> XlaMemory:
    """Return the memory of one call of a compiled function: `workspace_bytes` while it runs, and its outputs.

    `function` is a FunctionDef, or the name of a function of the eager context (`node.attr["f"].func.name`). `inputs`
    has one entry per argument: a TensorSpec for a tensor, the eager handle of a variable, or an eager tensor where the
    compiler needs the value, such as a shape. `library` has the FunctionDefs that it calls and the context lacks.
    """
    context.ensure_initialized()
    definition = context.context().get_function_def(function) if isinstance(function, str) else function
    if len(inputs) != len(definition.signature.input_arg):
        raise LowtideError(
            f"the function {definition.signature.name} takes "
            + format_count(len(definition.signature.input_arg), "argument"),
            given=len(inputs),
        )
    # The compiler takes all shapes first and all eager tensors after them.
    specs = [row for row, each in enumerate(inputs) if isinstance(each, tf.TensorSpec)]
    tensors = [row for row, each in enumerate(inputs) if not isinstance(each, tf.TensorSpec)]
    ordered = _reorder_arguments(definition, specs + tensors)
    started = time.perf_counter()
    with _registered([*library, ordered]):
        data = compile_function(
            ordered.signature.name, [inputs[row] for row in specs], [inputs[row] for row in tensors]
        )
    names = [definition.signature.input_arg[row].name for row in specs + tensors]
    arguments = [_argument(name, inputs[row]) for name, row in zip(names, specs + tensors, strict=True)]
    return read_memory(data, arguments, time.perf_counter() - started)


def _call_inputs(program: Program, graph: Graph, index: int) -> list[Any] | None:
    """Return a spec for each tensor and the handle of each variable; None if a shape is not known."""
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


def _reorder_arguments(definition: Any, order: Sequence[int]) -> Any:
    """Return the same function with its arguments in another order; its body refers to them by name."""
    result = type(definition)()
    result.CopyFrom(definition)
    result.signature.name = definition.signature.name + _SUFFIX
    del result.signature.input_arg[:]
    result.signature.input_arg.extend(definition.signature.input_arg[row] for row in order)
    result.arg_attr.clear()
    result.resource_arg_unique_id.clear()
    for new, old in enumerate(order):
        if old in definition.arg_attr:
            result.arg_attr[new].CopyFrom(definition.arg_attr[old])
        if old in definition.resource_arg_unique_id:
            result.resource_arg_unique_id[new] = definition.resource_arg_unique_id[old]
    return result


@contextmanager
def _registered(definitions: Sequence[Any]) -> Iterator[None]:
    """Add functions to the eager context for the time of a compilation."""
    runtime = context.context()
    added = []
    try:
        for definition in definitions:
            if not runtime.has_function(definition.signature.name):
                runtime.add_function_def(definition)
                added.append(definition.signature.name)
        yield
    finally:
        for name in added:
            runtime.remove_function(name)


def _argument(name: str, given: Any) -> XlaArgument:
    if given.dtype == tf.resource:
        data = given._handle_data.shape_and_type
        shape = tuple(dimension.size for dimension in data[0].shape.dim) if data else ()
        dtype = tf.as_dtype(data[0].dtype) if data else tf.uint8
        size = tf.TensorShape(shape).num_elements() * dtype.size if data else 0
        return XlaArgument(Owner(name, VARIABLE, None, "weights", dtype.name, shape, size))
    return describe_input(name, given)
