"""From a function or a compiled Keras model to the graph that TensorFlow would run, without running it.

The function is traced from specs, then handed to the runtime with an already cancelled cancellation manager:
TensorFlow places, optimizes, fuses and partitions it as for a real call, records the executed graph in the run
metadata, and stops before the first node. Scalars are passed as arguments, because nothing reads their contents.
"""

from __future__ import annotations

import gc
import itertools
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
from lowtide.program.graph import Graph, Shape, is_replacement
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.machine import resident_bytes
from lowtide.run.record import OWN
from lowtide.tf.trace import tuning
from lowtide.tf.trace.convert import graph_from_def, with_constants_of
from lowtide.tf.trace.rescale import is_consistent, rescale, rescale_shape
from lowtide.tf.trace.resolve_shapes import resolve_shapes, topological_order
from lowtide.tf.trace.trace_error import check_texts, trace_error


@dataclass
class Program:
    """A traced step: the executed graph, and the shapes of its arguments."""

    concrete: Any
    graph: Graph
    graph_def: graph_pb2.GraphDef
    argument_shapes: list[Shape | None]
    """Shapes of the flat arguments: the inputs, then the captures."""
    input_count: int
    optimized_def: graph_pb2.GraphDef | None = None
    """The graph after Grappler, before nodes were replaced by kernels of other libraries."""
    other_devices: tuple[Program, ...] = ()
    """The parts of the step that run on other devices at the same time."""
    traced_nodes: int = 0
    graph_bytes: int = 0
    host_bytes: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _last_rescaled: tuple[int, Graph] | None = None

    @property
    def batch_size(self) -> int | None:
        """The leading size that all inputs share; None if there is none."""
        sizes = {shape[0] for shape in self.argument_shapes[: self.input_count] if shape}
        return sizes.pop() if len(sizes) == 1 and -1 not in sizes else None

    def arguments(self) -> Iterator[tuple[int, int]]:
        """Yield the position of each argument that the graph reads, and its tensor."""
        for node, op in enumerate(self.graph.ops):
            if op in ("_Arg", "_DeviceArg"):
                yield self.graph.attributes[node].get("index", 0), self.graph.first_output[node]

    def graph_at(self, batch_size: int | None) -> Graph:
        """Return the graph with the shapes of a batch size; None stands for the one it was traced for."""
        traced = self.batch_size
        if batch_size is None or traced is None or batch_size == traced:
            return self._traced_graph
        if self._last_rescaled is None or self._last_rescaled[0] != batch_size:
            self._last_rescaled = batch_size, self._rescaled(traced, batch_size)
        return self._last_rescaled[1]

    def rescales_to(self, batch_size: int) -> bool:
        """Whether the graph at a batch size differs from the traced one in its batch axes alone."""
        traced = self.batch_size
        if traced is None or batch_size == traced:
            return batch_size == traced
        return is_consistent(self._traced_graph, self.graph_at(batch_size), self._batch_axes, traced, batch_size)

    def _rescaled(self, traced: int, batch_size: int) -> Graph:
        graph_def = rescale(self.graph_def, self._traced_graph, self._batch_axes, traced, batch_size)
        inputs = [rescale_shape(shape, traced, batch_size) for shape in self.argument_shapes[: self.input_count]]
        shapes = [*inputs, *self.argument_shapes[self.input_count :]]
        return resolve_shapes(with_constants_of(self.graph, graph_def), graph_def, _known_shapes(shapes))

    @cached_property
    def _traced_graph(self) -> Graph:
        return resolve_shapes(self.graph, self.graph_def, _known_shapes(self.argument_shapes))

    @cached_property
    def _batch_axes(self) -> list[Axis]:
        graph = self._traced_graph
        inputs = [tensor for index, tensor in self.arguments() if index < self.input_count]
        assert self.batch_size is not None
        return batch_axes(graph, topological_order(graph), self.batch_size, inputs)


def _known_shapes(shapes: Sequence[Shape | None]) -> dict[int, Shape]:
    return {index: shape for index, shape in enumerate(shapes) if shape is not None and -1 not in shape}


@dataclass
class Trace:
    """A function that was traced from specs, with the time and memory this took."""

    concrete: Any
    seconds: float
    resident_before: int | None

    @property
    def nodes(self) -> int:
        """The nodes of the function and of all functions it calls."""
        return count_nodes(self.concrete)

    @property
    def graph_bytes(self) -> int:
        """The serialized size of the function and of all functions it calls."""
        inner = {function.name: function for function in _called_functions(self.concrete)}
        size = int(self.concrete.function_def.ByteSize())
        return size + sum(int(function.cached_definition.ByteSize()) for function in inner.values())

    def host_bytes(self) -> int | None:
        """Return by how much this process has grown since before the trace; None where that is unknown."""
        now = resident_bytes()
        return None if now is None or self.resident_before is None else max(0, now - self.resident_before)


def trace(
    function: Callable[..., Any],
    specs: Sequence[Any],
    progress: ProgressCallback | None = None,
    expected_seconds: float | None = None,
) -> Trace:
    """Trace a tf.function, or a function that could be one, from the specs of its inputs."""
    if progress is not None:
        after = 1.0 + tuning.GRAPPLER_PER_TRACE + tuning.SIMULATION_PER_TRACE
        progress(Progress("tracing", left_seconds=None if expected_seconds is None else expected_seconds * after))
    before = resident_bytes()
    started = time.perf_counter()
    concrete = _concrete_function(function, specs)
    return Trace(concrete, time.perf_counter() - started, before)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector: graphs and simulations are many small objects without reference cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def build_program(traced: Trace, progress: ProgressCallback | None = None) -> Program:
    """Have TensorFlow build the graph that it would run for a traced function."""
    concrete = traced.concrete
    if progress is not None:
        # A planned step is not optimized, and its trace was another's.
        is_new = not getattr(concrete, "is_optimized", False) and traced.seconds > 0
        left = traced.seconds * (tuning.GRAPPLER_PER_TRACE + tuning.SIMULATION_PER_TRACE) if is_new else None
        progress(Progress("optimizing the graph with Grappler", left_seconds=left))
    started = time.perf_counter()
    graphs = executed_graphs(concrete)
    graph_def = graphs.partition
    optimized = time.perf_counter()
    with without_garbage_collection():
        graph = graph_from_def(graph_def)
        graph.earlier = _earlier_positions(graph, graphs.optimized)
        others = [(graph_from_def(other), other) for other in graphs.others]
    program = Program(
        concrete=concrete,
        graph=graph,
        graph_def=graph_def,
        optimized_def=graphs.optimized,
        argument_shapes=[static_shape(tensor.shape) for tensor in concrete.inputs],
        input_count=len(concrete.inputs) - len(concrete.captured_inputs),
        traced_nodes=traced.nodes,
        graph_bytes=traced.graph_bytes,
        host_bytes=traced.host_bytes(),
    )
    program.other_devices = tuple(replace(program, graph=other, graph_def=other_def) for other, other_def in others)
    converted = time.perf_counter()
    program.seconds = {"trace": traced.seconds, "grappler": optimized - started, "convert": converted - optimized}
    return program


def _earlier_positions(graph: Graph, optimized: graph_pb2.GraphDef) -> tuple[int, ...]:
    """Return the position of each node before kernels of another library replaced nodes of the optimized graph.

    A replacement has the name of the node that it replaces. It is added at the end, so its own position says nothing
    about the place of that node. A node that was not in the graph before comes last.
    """
    if not any(is_replacement(op) for op in graph.ops):
        return ()
    position = {node.name: index for index, node in enumerate(optimized.node)}
    return tuple(position.get(name, len(position) + index) for index, name in enumerate(graph.names))


def static_shape(shape: tf.TensorShape) -> Shape | None:
    """Return the dimensions, with -1 for an unknown one; None if the rank is unknown."""
    return None if shape.rank is None else tuple(-1 if size is None else size for size in shape.as_list())


def _concrete_function(function: Callable[..., Any], specs: Sequence[Any]) -> Any:
    wrapped = function if hasattr(function, "get_concrete_function") else tf.function(function)
    try:
        concrete = wrapped.get_concrete_function(*specs)
    except LowtideError:
        raise
    except Exception as error:
        raise trace_error(error, specs) from error
    check_texts(_operations(concrete), specs)
    return concrete


def _operations(concrete: Any) -> Iterator[tf.Operation]:
    """Yield the operations of a traced function and of all functions it calls."""
    graphs = [concrete.graph, *(function.graph for function in _called_functions(concrete))]
    return (operation for graph in graphs for operation in graph.get_operations())


def count_nodes(concrete: Any) -> int:
    """Count the nodes of a traced function and of all functions it calls."""
    functions = {function.name: function for function in _called_functions(concrete)}
    return len(concrete.graph.get_operations()) + sum(
        len(function.graph.get_operations()) for function in functions.values() if function.graph is not concrete.graph
    )


def _called_functions(concrete: Any) -> list[Any]:
    found = getattr(concrete.graph, "_functions", {})
    return [function for function in found.values() if getattr(function, "graph", None) is not None]


_RUN_METADATA = threading.Lock()


class ExecutedGraphs(NamedTuple):
    """The graphs that TensorFlow makes of a function before it runs."""

    optimized: graph_pb2.GraphDef
    """After Grappler, for all devices."""
    partition: graph_pb2.GraphDef
    """The part for one device: the part with the most nodes."""
    others: Sequence[graph_pb2.GraphDef] = ()
    """The parts for other devices."""


def executed_graphs(concrete: Any, make_input: Callable[[tf.DType], Any] | None = None) -> ExecutedGraphs:
    """Return the graphs that TensorFlow would make of this function.

    `make_input` makes a placeholder input of a dtype; nothing reads it, so the default is a scalar.
    """
    make_input = make_input or _make_scalar
    runtime = context.context()
    runtime.ensure_initialized()
    captured = list(concrete.captured_inputs)
    with tf.device("CPU:0"):
        zero = tf.constant(0)
        # The function is stopped before it reads its inputs.
        inputs = concrete.inputs[: len(concrete.inputs) - len(captured)]
        placeholders = [make_input(tensor.dtype) for tensor in inputs]
    manager = cancellation.CancellationManager()
    manager.start_cancel()
    with _RUN_METADATA:
        runtime.enable_run_metadata()
        try:
            # Discard the graphs of functions that ran before.
            tf.raw_ops.AddV2(x=zero, y=zero)
            runtime.export_run_metadata()
            try:
                with cancellation.CancellationManagerContext(manager), call_options(concrete):
                    _call_copy(runtime, concrete.function_def, [*placeholders, *captured])
            except tf.errors.CancelledError:
                pass
            # The graphs of a function that failed are recorded by the next op that succeeds.
            tf.raw_ops.AddV2(x=zero, y=zero)
            metadata = runtime.export_run_metadata()
        finally:
            runtime.disable_run_metadata()
    # Single ops record graphs too; those read their inputs with _DeviceArg.
    recorded = [
        (graphs, graph)
        for graphs in metadata.function_graphs
        for graph in graphs.partition_graphs
        if not any(node.op == "_DeviceArg" for node in graph.node)
    ]
    if not recorded:
        raise LowtideError(
            "TensorFlow did not record the graph it would run", given=concrete.name, cure="please report this"
        )
    # Other threads may have run functions meanwhile: take the graph with the most names of this one.
    own = _traced_names(concrete)
    graphs, largest = max(
        recorded, key=lambda each: (sum(_is_traced(node.name, own) for node in each[1].node), len(each[1].node))
    )
    others = [graph for graph in graphs.partition_graphs if graph is not largest]
    return ExecutedGraphs(graphs.post_optimization_graph, largest, others)


@contextmanager
def call_options(concrete: Any) -> Iterator[None]:
    """Set the options for calling a function: Grappler is switched off for one that it has already optimized."""
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
    return frozenset(operation.name for operation in _operations(concrete))


def _is_traced(name: str, names: frozenset[str]) -> bool:
    """Whether a node has one of these names; the name of an inlined node starts with the name of its call."""
    return name in names or name.partition("/")[2] in names


def _call_copy(runtime: Any, definition: Any, inputs: list[Any]) -> None:
    """Call a function under a new name: TensorFlow does not record the graph of one that has run before."""
    copy = type(definition)()
    copy.CopyFrom(definition)
    copy.signature.name = f"{definition.signature.name}{OWN}{next(_COPIES)}"
    runtime.add_function_def(copy)
    try:
        runtime.call_function(copy.signature.name.encode(), inputs, len(copy.signature.output_arg))
    finally:
        runtime.remove_function(copy.signature.name)


_COPIES = itertools.count()


def _make_scalar(dtype: tf.DType) -> tf.Tensor:
    if dtype == tf.resource or dtype == tf.variant:
        raise LowtideError(
            "a step's inputs must be tensors",
            given=f"an input of type {dtype.name}",
            cure="let the step capture it instead",
        )
    return tf.zeros([], dtype) if dtype != tf.string else tf.constant("")
