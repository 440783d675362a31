"""Apply a Rewrite to a traced step, and build a function from the result."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2, node_def_pb2
from tensorflow.python.eager import context

from lowtide.errors import LowtideError
from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.program.graph import Shape
from lowtide.tf.plan.arena import prepare_allocator
from lowtide.tf.plan.flatten import FlatFunction, function_of, split
from lowtide.tf.trace.convert import output_dtypes
from lowtide.tf.trace.trace import call_options

_NUMBERS = itertools.count()
# A row of this many elements is copied as a block at little cost.
_LONG_ROW = 256
# The limits of a slice of all elements, in each dimension.
_WHOLE = {"begin": 0, "end": 0, "strides": 1}


def fingerprint(flat: FlatFunction, shapes: Sequence[Shape | None]) -> str:
    """Return a digest of a graph: its nodes, their attributes and edges, and the shapes of its arguments."""
    total = hashlib.sha256(repr(shapes).encode())
    # TensorFlow does not always list the nodes in the same order.
    for node in sorted(flat.graph_def.node, key=lambda node: node.name):
        total.update(f"{node.name}|{node.op}|{'|'.join(node.input)}\n".encode())
        for key in sorted(node.attr):
            value = node.attr[key]
            if value.WhichOneof("value") != "func" and key[0] != "_" and key != "container":
                total.update(key.encode() + value.SerializeToString(deterministic=True))
    return total.hexdigest()


def apply(flat: FlatFunction, rewrite: Rewrite) -> FlatFunction:
    """Return the function with the edits of a rewrite."""
    graph_def = graph_pb2.GraphDef()
    graph_def.CopyFrom(flat.graph_def)
    nodes = {node.name: node for node in graph_def.node}
    for name, original in rewrite.copies:
        copy = graph_def.node.add()
        copy.CopyFrom(nodes[original])
        copy.name = name
        # What its original waits for has finished by then.
        data = [reference for reference in copy.input if not reference.startswith("^")]
        del copy.input[:]
        copy.input.extend(data)
        copy.attr.pop("_class", None)
        nodes[name] = copy
    for name, handed_on, trigger in rewrite.ties:
        for node in _tie_nodes(name, handed_on, trigger, nodes):
            nodes[node.name] = added = graph_def.node.add()
            added.CopyFrom(node)
    for name, position, reference in rewrite.inputs:
        nodes[name].input[position] = reference
    for name, shape in rewrite.in_place:
        _write_in_place(nodes[name], shape, nodes, graph_def)
    for name, behind in rewrite.barriers:
        nodes[name] = graph_def.node.add(name=name, op="NoOp", device=nodes[behind].device)
    for before, after in rewrite.controls:
        waited = f"^{before}"
        if waited not in nodes[after].input:
            nodes[after].input.append(waited)
    return dataclasses.replace(flat, graph_def=graph_def)


def _write_in_place(
    node: node_def_pb2.NodeDef, shape: Shape, nodes: dict[str, node_def_pb2.NodeDef], graph_def: graph_pb2.GraphDef
) -> None:
    """Turn an assignment into one to all elements of the variable, which keeps its buffer.

    Long rows are written as blocks, which takes half as long as element by element.
    """
    handle, value, *controls = node.input
    device, dtype = node.device, node.attr["dtype"].type
    if not (tf.as_dtype(dtype).is_floating or "CPU" in device):
        # Accelerators lack kernels for some integer types.
        return
    rank = len(shape)

    def constant(name: str, elements: np.ndarray) -> str:
        name = f"in_place/{name}{device.replace(':', '_')}"
        if name not in nodes:
            nodes[name] = made = graph_def.node.add()
            made.name, made.op, made.device = name, "Const", device
            made.attr["dtype"].type = tf.int32.as_datatype_enum
            made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(elements.astype(np.int32)))
        return name

    node.attr.clear()
    if rank and math.prod(shape[1:]) >= _LONG_ROW:
        node.op = "ResourceScatterUpdate"
        inputs = [handle, constant(f"rows_{shape[0]}", np.arange(shape[0])), value]
        node.attr["dtype"].type, node.attr["Tindices"].type = dtype, tf.int32.as_datatype_enum
    else:
        node.op = "ResourceStridedSliceAssign"
        limits = [constant(f"{part}_{rank}", np.full(rank, each)) for part, each in _WHOLE.items()]
        inputs = [handle, *limits, value]
        node.attr["T"].type, node.attr["Index"].type = dtype, tf.int32.as_datatype_enum
        node.attr["begin_mask"].i = node.attr["end_mask"].i = (1 << rank) - 1
        for unused in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
            node.attr[unused].i = 0
    del node.input[:]
    node.input.extend([*inputs, *controls])


def _tie_nodes(
    name: str, handed_on: str, trigger: str, nodes: dict[str, node_def_pb2.NodeDef]
) -> list[node_def_pb2.NodeDef]:
    """Return nodes that pass a tensor on bit for bit, but not before another one exists.

    They add a negative zero, which changes no number, not even the sign of a zero. One element of the trigger selects
    that zero in a comparison that is never true: whether the element is NaN is 0 or 1, never 2. A compiler cannot
    simplify this.
    """
    device = nodes[split(handed_on)[0]].device
    dtype, trigger_dtype = (output_dtypes(nodes[source])[port] for source, port in (split(handed_on), split(trigger)))
    made: list[node_def_pb2.NodeDef] = []

    def add(part: str, op: str, inputs: list[str], **attributes: Any) -> str:
        node = node_def_pb2.NodeDef(name=f"{name}/{part}" if part else name, op=op, device=device, input=inputs)
        for key, value in attributes.items():
            if isinstance(value, np.ndarray):
                node.attr[key].tensor.CopyFrom(tf.make_tensor_proto(value))
            elif isinstance(value, bool):
                node.attr[key].b = value
            else:
                node.attr[key].type = value
        made.append(node)
        return node.name

    def constant(part: str, value: np.ndarray) -> str:
        return add(part, "Const", [], dtype=tf.as_dtype(value.dtype).as_datatype_enum, value=value)

    flat = add(
        "flat",
        "Reshape",
        [trigger, constant("shape", np.array([-1], np.int32))],
        T=trigger_dtype,
        Tshape=tf.int32.as_datatype_enum,
    )
    begin, one = constant("begin", np.array([0], np.int32)), constant("one", np.array([1], np.int32))
    element = add("element", "Slice", [flat, begin, one], T=trigger_dtype, Index=tf.int32.as_datatype_enum)
    scalar = add(
        "scalar",
        "Reshape",
        [element, constant("no_shape", np.array([], np.int32))],
        T=trigger_dtype,
        Tshape=tf.int32.as_datatype_enum,
    )
    odd = add("odd", "NotEqual", [scalar, scalar], T=trigger_dtype, incompatible_shape_error=True)
    count = add("count", "Cast", [odd], SrcT=tf.bool.as_datatype_enum, DstT=tf.int32.as_datatype_enum)
    never = add("never", "Equal", [count, constant("two", np.array(2, np.int32))], T=tf.int32.as_datatype_enum)
    numbers = tf.as_dtype(dtype).as_numpy_dtype
    zero = add(
        "zero",
        "SelectV2",
        [never, constant("other", np.array(1, numbers)), constant("nothing", np.array(-0.0, numbers))],
        T=dtype,
    )
    add("", "AddV2", [handed_on, zero], T=dtype)
    return made


class Redefined:
    """A concrete function with a new body and the same arguments, captures and results."""

    def __init__(self, concrete: Any, flat: FlatFunction) -> None:
        self.original = concrete
        self.function_def: function_pb2.FunctionDef = function_of(flat, f"{flat.name}_planned_{next(_NUMBERS)}")
        self.name = self.function_def.signature.name
        self.is_optimized = flat.is_optimized

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def call_redefined(redefined: Redefined, arguments: list[Any]) -> Any:
    """Call the new body from within a graph, with flat arguments; returns structured results."""
    register(redefined)
    concrete = redefined.original
    results = tf.raw_ops.StatefulPartitionedCall(
        args=[*arguments, *concrete.captured_inputs],
        Tout=[tf.as_dtype(each.type) for each in redefined.function_def.signature.output_arg],
        f=redefined.name,
    )
    # For a call without results TensorFlow returns the operation itself.
    results = list(results) if isinstance(results, (list, tuple)) else []
    flat = concrete.function_type.flat_outputs
    if len(results) != len(flat):
        raise LowtideError("the planned step returns something else than its original", given=concrete.name)
    for tensor, kind in zip(results, flat, strict=True):
        tensor.set_shape(kind.shape)
    return concrete.function_type.pack_output(results)


_REGISTERED: weakref.WeakSet[Redefined] = weakref.WeakSet()


def register(redefined: Redefined) -> None:
    """Register a function with TensorFlow's runtime while its object exists."""
    if redefined in _REGISTERED:
        return
    runtime = context.context()
    runtime.ensure_initialized()
    runtime.add_function_def(redefined.function_def)
    _REGISTERED.add(redefined)
    weakref.finalize(redefined, _forget, redefined.name)


def _forget(name: str) -> None:
    runtime = context.context()
    if runtime.has_function(name):
        runtime.remove_function(name)


def planned_callable(redefined: Redefined, compiled: bool, total_bytes: int | None = None) -> Callable[..., Any]:
    """Return a callable with the original's signature and structured results, and the new body.

    If `total_bytes` is given, that memory is allocated as one arena.
    """
    concrete = redefined.original

    def planned(*arguments: Any, **named: Any) -> Any:
        return call_redefined(redefined, _flat_arguments(concrete.function_type, arguments, named))

    planned.__name__ = f"planned_{getattr(concrete, 'name', 'step')}"
    function = tf.function(planned, autograph=False, jit_compile=True if compiled else None)
    # A compiled step is one block anyway.
    return PlannedStep(function, redefined, None if compiled else total_bytes)


def _flat_arguments(function_type: Any, arguments: Any, named: Any) -> list[Any]:
    """Return the tensors among a call's arguments, in the order of the traced function."""
    bound = function_type.bind_partial(*arguments, **named)
    for name, parameter in function_type.parameters.items():
        if name not in bound.arguments:
            # The argument has its default, which the trace knows.
            bound.arguments[name] = getattr(parameter.type_constraint, "value", None)
    return list(function_type.unpack_inputs(bound))


class PlannedStep:
    """A planned step, called like its original."""

    def __init__(self, function: Any, redefined: Redefined, arena_bytes: int | None) -> None:
        self.function = function
        self.arena_bytes = arena_bytes
        """What the step takes in all, until an arena was fetched for it."""
        # The function's traces call the body by name, so it must exist as long as they do.
        self.redefined = redefined

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.arena_bytes is not None and tf.executing_eagerly():
            prepare_allocator(self.redefined.original.graph.variables, self.arena_bytes)
            self.arena_bytes = None
        with call_options(self.redefined):
            return self.function(*arguments, **named)

    def get_concrete_function(self, *arguments: Any, **named: Any) -> Any:
        """Return the trace, like tf.function."""
        return self.function.get_concrete_function(*arguments, **named)
