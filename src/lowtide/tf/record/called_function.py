"""A function that a script called, as a step: the batch that it drew from a data set becomes its arguments.

`fit` hands its function an iterator, and the function draws the batch itself. Nothing outside can say how large it
was; but the allocator noted the shape of every tensor, and the traced graph says which axis was left open.
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
from lowtide.tf.trace.trace import Program, Trace, executed_graph, without_garbage_collection

_DRAW = ("IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional")
_ARGUMENT = ("_Arg", "_DeviceArg")


@dataclass(frozen=True)
class Heard:
    """What the allocator was asked for while a step ran."""

    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Node and shape of each tensor that has both."""
    sizes: tuple[int, ...] = ()
    """Bytes of all that was asked for."""
    around_sizes: tuple[int, ...] = ()
    """The same in the steps before and after it too: a batch may be made while the step before runs."""
    modules: tuple[Signature, ...] = ()
    """What XLA had compiled."""


def program_of_call(concrete: Any, shapes: Sequence[Shape | None], heard: Heard) -> Program:
    """The graph that a call runs, with the shapes of this call; `shapes` are those of its arguments."""
    captured = list(concrete.captured_inputs)
    inputs = concrete.inputs[: len(concrete.inputs) - len(captured)]
    started = time.perf_counter()
    handle = tf.Variable(0.0, trainable=False)
    graph_def = executed_graph(concrete, lambda dtype: _stand_in(dtype, handle))
    known = [_joined(tensor, given) for tensor, given in zip(inputs, _padded(shapes, len(inputs)), strict=True)]
    batch = _batch_by_modules(graph_def, heard) or batch_size_of(concrete, heard) or _batch_by_bytes(graph_def, heard)
    arguments = _draw_as_arguments(graph_def, inputs, known, batch)
    optimized = time.perf_counter()
    with without_garbage_collection():
        graph = graph_from_def(graph_def)
    traced = Trace(concrete, 0.0, None)
    program = Program(
        concrete=concrete,
        graph=graph,
        graph_def=graph_def,
        argument_shapes=[*arguments, *(_plain(tensor.shape) for tensor in captured)],
        input_count=len(arguments),
        traced_nodes=traced.nodes,
        graph_bytes=traced.graph_bytes,
    )
    program.seconds = {"grappler": optimized - started, "convert": time.perf_counter() - optimized}
    return program


def batch_size_of(concrete: Any, heard: Heard) -> int | None:
    """The size that most recorded tensors have in an axis that the traced graph leaves open."""
    open_shapes = _open_shapes(concrete)
    votes: collections.Counter[int] = collections.Counter()
    for node, shape in heard.tensors:
        traced = _traced_shape(open_shapes, node)
        if traced is not None and len(traced) == len(shape) and traced[1:] == shape[1:]:
            votes[shape[0]] += 1
    return votes.most_common(1)[0][0] if votes else None


def _batch_by_modules(graph_def: graph_pb2.GraphDef, heard: Heard) -> int | None:
    """The batch that compiled modules were made for, of those that ran in the step.

    An array of NumPy's may serve as a tensor where it lies: then the allocator never hears of the batch.
    """
    asked = set(heard.sizes)
    drawn = {(dtype.name, sizes[1:]) for dtype, sizes in _open_draws(graph_def)}
    votes: collections.Counter[int] = collections.Counter()
    for module in heard.modules:
        if module.largest_block >= _SMALLEST_BLOCK and module.largest_block in asked:
            shapes = (shape for shape in module.parameters if (shape.dtype, shape.dimensions[1:]) in drawn)
            # A weight, and all that an optimizer keeps of it, may look like one of the drawn, but not like several.
            # What a step draws comes before its variables, and the first of equals is taken.
            votes.update(shape[0] for shape in dict.fromkeys(shape.dimensions for shape in shapes))
    return votes.most_common(1)[0][0] if votes else None


# Smaller blocks are asked for by everybody.
_SMALLEST_BLOCK = 4096


def _batch_by_bytes(graph_def: graph_pb2.GraphDef, heard: Heard) -> int | None:
    """The batch whose tensors, as a step draws them, all have a size that was asked for, as often as there are such.

    What XLA compiles shows no shapes; but somebody made the batch, in this step or before it, and its rows have a
    known size.
    """
    rows = collections.Counter(_row_bytes(graph_def))
    return _fitting_batch(rows, heard.sizes) or _fitting_batch(rows, heard.around_sizes)


def _fitting_batch(rows: collections.Counter[int], sizes: Sequence[int]) -> int | None:
    asked = collections.Counter(sizes)
    largest = max(rows, default=0)
    batches = {size // largest for size in asked if largest and size and size % largest == 0}
    fitting = [batch for batch in batches if all(asked[batch * row] >= count for row, count in rows.items())]
    return max(fitting, key=lambda batch: (asked[batch * largest], -batch), default=None)


def _row_bytes(graph_def: graph_pb2.GraphDef) -> Iterator[int]:
    """The bytes of one row of each tensor that is drawn with an open first axis, and no other."""
    for dtype, sizes in _open_draws(graph_def):
        yield math.prod(sizes[1:]) * dtype.size


def _open_draws(graph_def: graph_pb2.GraphDef) -> Iterator[tuple[tf.DType, tuple[int, ...]]]:
    """Type and shape of each tensor that is drawn with an open first axis, and no other."""
    for node in graph_def.node:
        if node.op not in _DRAW:
            continue
        types, shapes = node.attr["output_types"].list.type, node.attr["output_shapes"].list.shape
        for dtype, shape in zip(types, shapes, strict=True):
            sizes = tuple(dimension.size for dimension in shape.dim)
            if sizes and sizes[0] == -1 and -1 not in sizes[1:]:
                yield tf.as_dtype(dtype), sizes


def _open_shapes(concrete: Any) -> dict[str, tuple[int | None, ...]]:
    """The first output's shape of every traced op whose leading size is open, and nothing else of it."""
    graphs = [concrete.graph]
    found: dict[str, tuple[int | None, ...]] = {}
    seen: set[int] = set()
    while graphs:
        graph = graphs.pop()
        if id(graph) in seen:
            continue
        seen.add(id(graph))
        graphs += [each.graph for each in getattr(graph, "_functions", {}).values() if hasattr(each, "graph")]
        for operation in graph.get_operations():
            shape = operation.outputs[0].shape if operation.outputs else None
            if shape is not None and shape.rank and shape[0] is None and None not in shape[1:]:
                found[operation.name] = tuple(shape.as_list())
    return found


def _traced_shape(shapes: dict[str, tuple[int | None, ...]], node: str) -> tuple[int | None, ...] | None:
    """A function that is inlined puts the name of its call before the names of its nodes."""
    while node not in shapes and "/" in node:
        node = node.partition("/")[2]
    return shapes.get(node)


def _stand_in(dtype: tf.DType, handle: tf.Variable) -> Any:
    if dtype == tf.resource:
        return handle.handle
    if dtype == tf.variant:
        return tf.data.experimental.to_variant(tf.data.Dataset.range(1))
    return tf.zeros([], dtype) if dtype != tf.string else tf.constant("")


def _padded(shapes: Sequence[Shape | None], count: int) -> list[Shape | None]:
    return [*shapes[:count], *[None] * (count - len(shapes))]


def _joined(tensor: Any, given: Shape | None) -> Shape | None:
    traced = _plain(tensor.shape)
    return given if given is not None else traced


def _plain(shape: tf.TensorShape) -> Shape | None:
    return None if shape.rank is None else tuple(-1 if size is None else size for size in shape.as_list())


def _draw_as_arguments(
    graph_def: graph_pb2.GraphDef, inputs: Sequence[Any], shapes: Sequence[Shape | None], batch: int | None
) -> list[Shape | None]:
    """Put arguments in the place of what draws from an iterator; returns the shapes of all inputs, in order."""
    kept = [position for position, tensor in enumerate(inputs) if tensor.dtype not in (tf.resource, tf.variant)]
    arguments = [shapes[position] for position in kept]
    draws = [node for node in graph_def.node if node.op in _DRAW]
    names: dict[str, str] = {}
    added = []
    for node in draws:
        types, drawn = node.attr["output_types"].list.type, node.attr["output_shapes"].list.shape
        for port, (dtype, shape) in enumerate(zip(types, drawn, strict=True)):
            argument = node_def_pb2.NodeDef(name=f"{node.name}/{port}", op="_Arg", device=node.device)
            argument.attr["T"].type = dtype
            argument.attr["index"].i = len(arguments)
            added.append(argument)
            names[node.name if port == 0 else f"{node.name}:{port}"] = argument.name
            arguments.append(_filled(shape, batch))
    if not draws and len(kept) == len(inputs):
        return arguments
    gone = {node.name for node in draws}
    for node in graph_def.node:
        if node.op in _ARGUMENT:
            _renumber(node, kept, len(inputs), len(arguments))
        wanted = [names.get(name, name) for name in node.input if name.removeprefix("^") not in gone or name in names]
        if wanted != list(node.input):
            del node.input[:]
            node.input.extend(wanted)
    rest = [node for node in graph_def.node if node.name not in gone]
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
        # An iterator is no argument any more. What is left of it is read by nobody.
        node.attr["index"].i = after + before + index + (1 << 20)


def _filled(shape: Any, batch: int | None) -> Shape | None:
    if shape.unknown_rank:
        return None
    sizes = [dimension.size for dimension in shape.dim]
    return tuple(batch if size == -1 and batch is not None and axis == 0 else size for axis, size in enumerate(sizes))
