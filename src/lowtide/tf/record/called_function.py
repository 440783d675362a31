"""The program of a function that a script called: a batch that it takes from an iterator becomes its arguments.

`fit` passes an iterator to its function, and the function takes the batch itself. The size of the batch is inferred:
the allocator recorded the shape of every tensor, and the traced graph says which axis is unknown.
"""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from lowtide.program.graph import Shape
from lowtide.sources.profiles.compiled_modules import Signature
from lowtide.tf.trace.convert import graph_from_def
from lowtide.tf.trace.source_lines import inner_functions
from lowtide.tf.trace.trace import Program, Trace, executed_graphs, static_shape, without_garbage_collection

_ITERATOR_OPS = ("IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional")
_ARGUMENT_OPS = ("_Arg", "_DeviceArg")


@dataclass(frozen=True)
class StepAllocations:
    """The requests to the allocator while a step ran."""

    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Node and shape of each tensor for which both are known."""
    sizes: tuple[int, ...] = ()
    """The bytes of all requests."""
    surrounding_sizes: tuple[int, ...] = ()
    """The same including the neighbouring steps: a batch may be made while the step before runs."""
    modules: tuple[Signature, ...] = ()
    """The modules that XLA compiled."""


def program_of_call(concrete: Any, shapes: Sequence[Shape | None], allocations: StepAllocations) -> Program:
    """The graph that a call executes, with the shapes of this call; `shapes` are those of its arguments."""
    captured = list(concrete.captured_inputs)
    inputs = concrete.inputs[: len(concrete.inputs) - len(captured)]
    started = time.perf_counter()
    handle = tf.Variable(0.0, trainable=False)
    graph_def = executed_graphs(concrete, lambda dtype: _placeholder(dtype, handle)).partition
    given = [*shapes[: len(inputs)], *[None] * (len(inputs) - len(shapes))]
    known = [
        static_shape(tensor.shape) if shape is None else shape for tensor, shape in zip(inputs, given, strict=True)
    ]
    batch = (
        _batch_by_modules(graph_def, allocations)
        or batch_size_of(concrete, allocations)
        or _batch_by_bytes(graph_def, allocations)
    )
    arguments = _replace_iterators(graph_def, inputs, known, batch)
    optimized = time.perf_counter()
    with without_garbage_collection():
        graph = graph_from_def(graph_def)
    traced = Trace(concrete, 0.0, None)
    program = Program(
        concrete=concrete,
        graph=graph,
        graph_def=graph_def,
        argument_shapes=[*arguments, *(static_shape(tensor.shape) for tensor in captured)],
        input_count=len(arguments),
        traced_nodes=traced.nodes,
        graph_bytes=traced.graph_bytes,
    )
    program.seconds = {"grappler": optimized - started, "convert": time.perf_counter() - optimized}
    return program


def batch_size_of(concrete: Any, allocations: StepAllocations) -> int | None:
    """The first size that most recorded tensors have where the traced graph does not know it."""
    batched_shapes = _batched_shapes(concrete)
    votes: collections.Counter[int] = collections.Counter()
    for node, shape in allocations.tensors:
        traced = _traced_shape(batched_shapes, node)
        if traced is not None and len(traced) == len(shape) and traced[1:] == shape[1:]:
            votes[shape[0]] += 1
    return votes.most_common(1)[0][0] if votes else None


def _batch_by_modules(graph_def: graph_pb2.GraphDef, allocations: StepAllocations) -> int | None:
    """The batch that XLA compiled modules for, of those modules that ran in the step.

    A tensor may share the memory of a NumPy array: then the allocator never sees the batch.
    """
    requested = set(allocations.sizes)
    batch_types = {(dtype.name, sizes[1:]) for dtype, sizes in _batch_outputs(graph_def)}
    votes: collections.Counter[int] = collections.Counter()
    for module in allocations.modules:
        if module.largest_block >= _SMALLEST_BLOCK and module.largest_block in requested:
            shapes = (shape for shape in module.parameters if (shape.dtype, shape.dimensions[1:]) in batch_types)
            # A weight and its optimizer slots may match one of the batch's tensors, but not several. The batch comes
            # before the variables, and of equal counts the first one is chosen.
            votes.update(shape[0] for shape in dict.fromkeys(shape.dimensions for shape in shapes))
    return votes.most_common(1)[0][0] if votes else None


# Many unrelated allocations are smaller than this.
_SMALLEST_BLOCK = 4096


def _batch_by_bytes(graph_def: graph_pb2.GraphDef, allocations: StepAllocations) -> int | None:
    """The batch size for which every tensor of the batch has a matching request.

    Compiled code shows no shapes; but the batch was allocated, in this step or before it, and the size of its rows is
    known.
    """
    rows = collections.Counter(_row_bytes(graph_def))
    return _fitting_batch(rows, allocations.sizes) or _fitting_batch(rows, allocations.surrounding_sizes)


def _fitting_batch(rows: collections.Counter[int], sizes: Sequence[int]) -> int | None:
    requests = collections.Counter(sizes)
    largest = max(rows, default=0)
    batches = {size // largest for size in requests if largest and size and size % largest == 0}
    fitting = [batch for batch in batches if all(requests[batch * row] >= count for row, count in rows.items())]
    return max(fitting, key=lambda batch: (requests[batch * largest], -batch), default=None)


def _row_bytes(graph_def: graph_pb2.GraphDef) -> Iterator[int]:
    """The bytes of one row of each tensor of the batch."""
    for dtype, sizes in _batch_outputs(graph_def):
        yield math.prod(sizes[1:]) * dtype.size


def _batch_outputs(graph_def: graph_pb2.GraphDef) -> Iterator[tuple[tf.DType, tuple[int, ...]]]:
    """Type and shape of each tensor from an iterator of which only the first size is unknown."""
    for node in graph_def.node:
        if node.op not in _ITERATOR_OPS:
            continue
        types, shapes = node.attr["output_types"].list.type, node.attr["output_shapes"].list.shape
        for dtype, shape in zip(types, shapes, strict=True):
            sizes = tuple(dimension.size for dimension in shape.dim)
            if sizes and sizes[0] == -1 and -1 not in sizes[1:]:
                yield tf.as_dtype(dtype), sizes


def _batched_shapes(concrete: Any) -> dict[str, tuple[int | None, ...]]:
    """The shape of the first output of every traced op, where only the first size is unknown."""
    found: dict[str, tuple[int | None, ...]] = {}
    for graph in (concrete.graph, *inner_functions(concrete.graph).values()):
        for operation in graph.get_operations():
            shape = operation.outputs[0].shape if operation.outputs else None
            if shape is not None and shape.rank and shape[0] is None and None not in shape[1:]:
                found[operation.name] = tuple(shape.as_list())
    return found


def _traced_shape(shapes: dict[str, tuple[int | None, ...]], node: str) -> tuple[int | None, ...] | None:
    """The shape of a node whose name may begin with the calls that it was inlined from."""
    while node not in shapes and "/" in node:
        node = node.partition("/")[2]
    return shapes.get(node)


def _placeholder(dtype: tf.DType, handle: tf.Variable) -> Any:
    if dtype == tf.resource:
        return handle.handle
    if dtype == tf.variant:
        return tf.data.experimental.to_variant(tf.data.Dataset.range(1))
    return tf.zeros([], dtype) if dtype != tf.string else tf.constant("")


def _replace_iterators(
    graph_def: graph_pb2.GraphDef, inputs: Sequence[Any], shapes: Sequence[Shape | None], batch: int | None
) -> list[Shape | None]:
    """Replace ops that read an iterator by arguments; returns the shapes of all arguments, in order."""
    kept = [position for position, tensor in enumerate(inputs) if tensor.dtype not in (tf.resource, tf.variant)]
    arguments = [shapes[position] for position in kept]
    readers = [node for node in graph_def.node if node.op in _ITERATOR_OPS]
    names: dict[str, str] = {}
    added = []
    for node in readers:
        types, output_shapes = node.attr["output_types"].list.type, node.attr["output_shapes"].list.shape
        for port, (dtype, shape) in enumerate(zip(types, output_shapes, strict=True)):
            argument = node_def_pb2.NodeDef(name=f"{node.name}/{port}", op="_Arg", device=node.device)
            argument.attr["T"].type = dtype
            argument.attr["index"].i = len(arguments)
            added.append(argument)
            names[node.name if port == 0 else f"{node.name}:{port}"] = argument.name
            arguments.append(_with_batch(shape, batch))
    if not readers and len(kept) == len(inputs):
        return arguments
    removed = {node.name for node in readers}
    for node in graph_def.node:
        if node.op in _ARGUMENT_OPS:
            _renumber(node, kept, len(inputs), len(arguments))
        wanted = [
            names.get(name, name) for name in node.input if name.removeprefix("^") not in removed or name in names
        ]
        if wanted != list(node.input):
            del node.input[:]
            node.input.extend(wanted)
    rest = [node for node in graph_def.node if node.name not in removed]
    del graph_def.node[:]
    graph_def.node.extend([*added, *rest])
    return arguments


def _renumber(node: node_def_pb2.NodeDef, kept: Sequence[int], before: int, after: int) -> None:
    index = node.attr["index"].i
    if index >= before:
        node.attr["index"].i = index - before + after
    elif index in kept:
        node.attr["index"].i = kept.index(index)
    else:
        # An iterator is not an argument any more, and nothing reads it: any unused index will do.
        node.attr["index"].i = after + before + index + (1 << 20)


def _with_batch(shape: Any, batch: int | None) -> Shape | None:
    if shape.unknown_rank:
        return None
    sizes = [dimension.size for dimension in shape.dim]
    return tuple(batch if size == -1 and batch is not None and axis == 0 else size for axis, size in enumerate(sizes))
