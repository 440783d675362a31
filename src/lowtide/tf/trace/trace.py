"""From a function or a compiled Keras model to the graph that TensorFlow would run, without running it.

The function is traced from specs, then handed to the runtime with an already cancelled cancellation manager:
TensorFlow places, optimises, fuses and partitions it as for a real call, files the executed graph, and stops
before the first node. Arguments are passed as scalars, because nothing ever looks into them.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import cancellation, context

from lowtide.errors import LowtideError
from lowtide.program.batch_axis import Axis, batch_axes
from lowtide.program.graph import Graph, Shape
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.record import OWN
from lowtide.tf.trace.convert import graph_from_def, with_constants_of
from lowtide.tf.trace.rescale import rescale, rescale_shape
from lowtide.tf.trace.resolve_shapes import resolve_shapes, topological_order


@dataclass
class Program:
    """A traced step: the graph that runs, and what its arguments and variables are."""

    concrete: Any
    graph: Graph
    graph_def: graph_pb2.GraphDef
    argument_shapes: list[Shape | None]
    """Shapes of the flat arguments, inputs first, captures after them."""
    input_count: int
    optimized_def: graph_pb2.GraphDef | None = None
    """What Grappler left, before kernels of other libraries took the place of some nodes."""
    beside: tuple[Program, ...] = ()
    """What runs on other devices at the same time."""
    traced_nodes: int = 0
    graph_bytes: int = 0
    host_bytes: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def batch_size(self) -> int | None:
        """The common leading size of the inputs; None when they have none."""
        sizes = {shape[0] for shape in self.argument_shapes[: self.input_count] if shape}
        return sizes.pop() if len(sizes) == 1 and -1 not in sizes else None

    def at(self, batch_size: int | None) -> Graph:
        """The graph with the shapes of one batch size: the one it was traced for, or another."""
        traced = self.batch_size
        if batch_size is None or traced is None or batch_size == traced:
            return self._traced_graph
        graph_def = rescale(self.graph_def, self._traced_graph, self._batch_axes, traced, batch_size)
        inputs = [rescale_shape(shape, traced, batch_size) for shape in self.argument_shapes[: self.input_count]]
        shapes = [*inputs, *self.argument_shapes[self.input_count :]]
        return resolve_shapes(with_constants_of(self.graph, graph_def), graph_def, _known(shapes))

    @cached_property
    def _traced_graph(self) -> Graph:
        return resolve_shapes(self.graph, self.graph_def, _known(self.argument_shapes))

    @cached_property
    def _batch_axes(self) -> list[Axis]:
        graph = self._traced_graph
        inputs = [
            graph.first_output[node]
            for node, op in enumerate(graph.ops)
            if op in ("_Arg", "_DeviceArg") and graph.attributes[node].get("index", 0) < self.input_count
        ]
        assert self.batch_size is not None
        return batch_axes(graph, topological_order(graph), self.batch_size, inputs)


def _known(shapes: Sequence[Shape | None]) -> dict[int, Shape]:
    return {index: shape for index, shape in enumerate(shapes) if shape is not None and -1 not in shape}


@dataclass
class Trace:
    """A function that was traced from specs, and what that took."""

    concrete: Any
    seconds: float
    resident_before: int | None

    @property
    def nodes(self) -> int:
        return count_nodes(self.concrete)

    @property
    def graph_bytes(self) -> int:
        inner = {function.name: function for function in _inner_functions(self.concrete)}
        size = int(self.concrete.function_def.ByteSize())
        return size + sum(int(function.cached_definition.ByteSize()) for function in inner.values())

    def host_bytes(self) -> int | None:
        """By how much this process grew since before the trace."""
        now = _resident_bytes()
        return None if now is None or self.resident_before is None else max(0, now - self.resident_before)


def trace(function: Callable[..., Any], specs: Sequence[Any], progress: ProgressCallback | None = None) -> Trace:
    """Trace a function (a tf.function, or one that could be) from its specs."""
    if progress is not None:
        progress(Progress("tracing"))
    before = _resident_bytes()
    started = time.perf_counter()
    concrete = _concrete_function(function, specs)
    return Trace(concrete, time.perf_counter() - started, before)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Graphs and simulations are many small objects without cycles: the collector would walk them for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def program_of(traced: Trace, progress: ProgressCallback | None = None) -> Program:
    """The graph that TensorFlow would run for a traced function."""
    concrete = traced.concrete
    if progress is not None:
        progress(Progress("optimizing the graph with Grappler"))
    started = time.perf_counter()
    graphs = executed_graphs(concrete)
    graph_def = graphs.partition
    optimized = time.perf_counter()
    with without_garbage_collection():
        graph = graph_from_def(graph_def)
        others = [(graph_from_def(other), other) for other in graphs.others]
    program = Program(
        concrete=concrete,
        graph=graph,
        graph_def=graph_def,
        optimized_def=graphs.optimized,
        argument_shapes=[_plain(tensor.shape) for tensor in concrete.inputs],
        input_count=len(concrete.inputs) - len(concrete.captured_inputs),
        traced_nodes=traced.nodes,
        graph_bytes=traced.graph_bytes,
        host_bytes=traced.host_bytes(),
    )
    program.beside = tuple(replace(program, graph=other, graph_def=other_def) for other, other_def in others)
    converted = time.perf_counter()
    program.seconds = {"trace": traced.seconds, "grappler": optimized - started, "convert": converted - optimized}
    return program


def _plain(shape: tf.TensorShape) -> Shape | None:
    return None if shape.rank is None else tuple(-1 if size is None else size for size in shape.as_list())


def _concrete_function(function: Callable[..., Any], specs: Sequence[Any]) -> Any:
    wrapped = function if hasattr(function, "get_concrete_function") else tf.function(function)
    try:
        return wrapped.get_concrete_function(*specs)
    except LowtideError:
        raise
    except Exception as error:
        raise untraceable(error, specs) from error


def untraceable(error: Exception, specs: Sequence[Any]) -> LowtideError:
    text = str(error).strip().splitlines()
    reason = next((line.strip() for line in reversed(text) if line.strip()), type(error).__name__)
    shown = ", ".join(_show(spec) for spec in tf.nest.flatten(list(specs)))
    return LowtideError(
        f"the step cannot be traced: {type(error).__name__}: {reason[:300]}",
        given=f"specs {shown}" if shown else "no specs",
        cure="pass one tf.TensorSpec per argument of the step, with the shapes and dtypes it really gets",
    )


def _show(spec: Any) -> str:
    shape = getattr(spec, "shape", None)
    dtype = getattr(spec, "dtype", None)
    return f"{tuple(shape) if shape is not None and shape.rank is not None else shape} {getattr(dtype, 'name', dtype)}"


def count_nodes(concrete: Any) -> int:
    """The nodes of a traced function, and of all that it calls."""
    functions = {function.name: function for function in _inner_functions(concrete)}
    return len(concrete.graph.get_operations()) + sum(
        len(function.graph.get_operations()) for function in functions.values() if function.graph is not concrete.graph
    )


def _inner_functions(concrete: Any) -> list[Any]:
    found = getattr(concrete.graph, "_functions", {})
    return [function for function in found.values() if getattr(function, "graph", None) is not None]


_RUN_METADATA = threading.Lock()


class ExecutedGraphs(NamedTuple):
    """What becomes of a function before it runs."""

    optimized: graph_pb2.GraphDef
    """After Grappler, for all devices."""
    partition: graph_pb2.GraphDef
    """What an executor runs on one of them: the one with the most nodes."""
    others: Sequence[graph_pb2.GraphDef] = ()
    """What executors run on other devices."""


def executed_graph(concrete: Any, stand_in: Callable[[tf.DType], Any] | None = None) -> graph_pb2.GraphDef:
    """The partition graph that TensorFlow's executor would run for this function."""
    return executed_graphs(concrete, stand_in).partition


def executed_graphs(concrete: Any, stand_in: Callable[[tf.DType], Any] | None = None) -> ExecutedGraphs:
    """The graphs that TensorFlow would make of this function.

    Its inputs need not be there: something of the same type stands in for each.
    """
    stand_in = stand_in or _stand_in
    runtime = context.context()
    runtime.ensure_initialized()
    captured = list(concrete.captured_inputs)
    with tf.device("CPU:0"):
        zero = tf.constant(0)
        # Scalars stand for the inputs: the function is stopped before it reads them.
        inputs = concrete.inputs[: len(concrete.inputs) - len(captured)]
        stand_ins = [stand_in(tensor.dtype) for tensor in inputs]
    manager = cancellation.CancellationManager()
    manager.start_cancel()
    with _RUN_METADATA:
        runtime.enable_run_metadata()
        try:
            # What was filed for functions that ran before is still to be fetched.
            tf.raw_ops.AddV2(x=zero, y=zero)
            runtime.export_run_metadata()
            try:
                with cancellation.CancellationManagerContext(manager), call_options(concrete):
                    _call_copy(runtime, concrete.function_def, [*stand_ins, *captured])
            except tf.errors.CancelledError:
                pass
            # The graphs of a function that failed are filed by the next op that succeeds.
            tf.raw_ops.AddV2(x=zero, y=zero)
            metadata = runtime.export_run_metadata()
        finally:
            runtime.disable_run_metadata()
    # Single ops file graphs too; theirs take their inputs from the device.
    filed = [
        (graphs, graph)
        for graphs in metadata.function_graphs
        for graph in graphs.partition_graphs
        if not any(node.op == "_DeviceArg" for node in graph.node)
    ]
    if not filed:
        raise LowtideError(
            "TensorFlow did not show the graph it would run", given=concrete.name, cure="please report this"
        )
    # Another thread may run functions too.
    own = _traced_names(concrete)
    graphs, largest = max(
        filed, key=lambda each: (sum(_is_among(node.name, own) for node in each[1].node), len(each[1].node))
    )
    others = [graph for graph in graphs.partition_graphs if graph is not largest]
    return ExecutedGraphs(graphs.post_optimization_graph, largest, others)


@contextmanager
def call_options(concrete: Any) -> Iterator[None]:
    """Call a function as it wants to be called: one that Grappler has been through already is not sent there again."""
    if not getattr(concrete, "is_optimized", False):
        yield
        return
    runtime = context.context()
    before = runtime.function_call_options
    config = config_pb2.ConfigProto()
    config.CopyFrom(runtime.config)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    runtime.function_call_options = context.FunctionCallOptions(before.executor_type, config)
    try:
        yield
    finally:
        runtime.function_call_options = before


def _traced_names(concrete: Any) -> frozenset[str]:
    graphs = [concrete.graph, *(function.graph for function in _inner_functions(concrete))]
    return frozenset(operation.name for graph in graphs for operation in graph.get_operations())


def _is_among(name: str, names: frozenset[str]) -> bool:
    """Whether a node is one of these; what was inlined has the name of its call before its own."""
    return name in names or name.partition("/")[2] in names


def _call_copy(runtime: Any, definition: Any, inputs: list[Any]) -> None:
    """Call a function under another name: TensorFlow files the graph of one that has run before no second time."""
    copy = type(definition)()
    copy.CopyFrom(definition)
    copy.signature.name = f"{definition.signature.name}{OWN}{next(_COPIES)}"
    runtime.add_function_def(copy)
    try:
        runtime.call_function(copy.signature.name.encode(), inputs, len(copy.signature.output_arg))
    finally:
        runtime.remove_function(copy.signature.name)


_COPIES = itertools.count()


def _stand_in(dtype: tf.DType) -> tf.Tensor:
    if dtype == tf.resource or dtype == tf.variant:
        raise LowtideError(
            "a step's inputs must be tensors",
            given=f"an input of type {dtype.name}",
            cure="let the step capture it instead",
        )
    return tf.zeros([], dtype) if dtype != tf.string else tf.constant("")


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
