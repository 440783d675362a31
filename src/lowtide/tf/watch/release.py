"""Frees the memory that a discarded model still holds.

An optimizer sums gradients over replicas through a function with a custom gradient. TensorFlow registers that gradient,
a closure, permanently; the closure holds the graph of the training step, and the graph holds the variables that it
reads: weights, slots and metrics. `del`, `gc.collect()` and `clear_session()` do not free it.

An entry of the registry is needed only to compute the gradient of an op in that same graph. It can be removed when no
function is left that can run the graph; a function that is traced again registers new entries.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tensorflow.python.eager.polymorphic_function.atomic_function import AtomicFunction
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph

from lowtide.errors import LowtideError
from lowtide.tf.memory_meter import MemoryMeter
from lowtide.tf.references.gc_objects import instances_of
from lowtide.tf.references.holders import live_variables, variable_bytes
from lowtide.tf.trace.source_lines import find_user_line

_FUNCTIONS_OF_A_MODEL = ("train_function", "test_function", "predict_function")


@dataclass(frozen=True, slots=True)
class Released:
    """The result of `release`: the number of removed entries, the bytes of the variables they held, and memory in use.

    `bytes_before` and `bytes_after` are figures of `measured_by`. Variables that the caller's model refers to are freed
    when the caller deletes the model; `held_bytes` includes them.
    """

    entries: int
    held_bytes: int
    bytes_before: int | None
    bytes_after: int | None
    measured_by: str


@dataclass(frozen=True, slots=True)
class DeadModel:
    """Variables that only a graph in the registry holds: of a model, or (not `whole`) of an optimizer that it had."""

    bytes: int
    whole: bool
    source: str | None


def release(model: Any = None) -> Released:
    """Free what TensorFlow keeps of a Keras model; without an argument, of all models that were deleted.

    Delete the model afterwards (`del model`). If it is used again, it is traced again. Other models are not affected,
    even if they share its layers.
    """
    meter = MemoryMeter()
    before = meter.read().bytes
    handles = None if model is None else _handles_of(model)
    if model is not None:
        _forget_functions(model)
    removed = _remove_entries(handles)
    held = {id(handle): handle for graph in removed for handle in _captured_handles(graph)}
    held_bytes = sum(variable_bytes(handle) for handle in held.values())
    count = sum(removed.values())
    del removed, held, handles
    gc.collect()
    after = meter.read().bytes
    return Released(count, held_bytes, before, after, meter.source)


def dead_models(among: Collection[str] | None = None) -> list[DeadModel]:
    """Models whose variables only the registry's graphs hold, oldest first; `among` limits the entries."""
    living = {id(each.handle) for each in live_variables()}
    # The graphs for training and evaluation of one model share its variables.
    groups: list[tuple[dict[int, Any], list[Any]]] = []
    for graph in dict.fromkeys(graph for name, graph in _entries() if among is None or name in among):
        handles, graphs = {id(each): each for each in _captured_handles(graph) if id(each) not in living}, [graph]
        if not handles:
            continue
        same = [group for group in groups if group[0].keys() & handles.keys()]
        for group in same:
            handles, graphs = group[0] | handles, group[1] + graphs
        groups = [group for group in groups if group not in same] + [(handles, graphs)]
    return [_dead_model(handles, graphs, living) for handles, graphs in groups]


def entry_names() -> frozenset[str]:
    """The names of all registered gradients."""
    return frozenset(ops.gradient_registry._registry)


def _dead_model(handles: dict[int, Any], graphs: list[Any], living: set[int]) -> DeadModel:
    total = sum(map(variable_bytes, handles.values()))
    whole = not any(id(each) in living for graph in graphs for each in _captured_handles(graph))
    return DeadModel(total, whole, _line(graphs[0]))


def _handles_of(model: Any) -> set[int]:
    variables = list(getattr(model, "variables", ()))
    if not variables and not hasattr(model, "layers"):
        raise LowtideError("release takes a Keras model", given=type(model).__name__, cure="pass the model, or nothing")
    variables += getattr(getattr(model, "optimizer", None), "variables", [])
    values = (getattr(variable, "value", variable) for variable in variables)
    return {id(value.handle) for value in values if hasattr(value, "handle")}


def _forget_functions(model: Any) -> None:
    """Delete the functions that Keras created for this model; it creates new ones when they are needed."""
    for name in _FUNCTIONS_OF_A_MODEL:
        if getattr(model, name, None) is not None:
            setattr(model, name, None)


def _remove_entries(handles: set[int] | None) -> dict[Any, int]:
    """Remove the entries whose graph no function can run, and return their graphs with the number of entries of each.

    The graph of one entry may hold functions whose graphs have entries too, so this repeats until nothing is removed.
    """
    registry = ops.gradient_registry._registry
    removed: dict[Any, int] = {}
    while True:
        gc.collect()
        runnable = _runnable_graphs(removed)
        gone = [(name, graph) for name, graph in _entries() if id(graph) not in runnable]
        if handles is not None:
            gone = [
                (name, graph) for name, graph in gone if any(id(each) in handles for each in _captured_handles(graph))
            ]
        if not gone:
            return removed
        for name, graph in gone:
            del registry[name]
            removed[graph] = removed.get(graph, 0) + 1


def _runnable_graphs(removed: dict[Any, int]) -> set[int]:
    """Graphs that a function can still run, and those that are being built."""
    inner = {id(each) for graph in removed for each in getattr(graph, "_functions", {}).values()}
    functions = [each for each in instances_of(ConcreteFunction, AtomicFunction) if id(each) not in inner]
    graphs = {id(getattr(function, "graph", None)) for function in functions}
    graph: Any = ops.get_default_graph()
    while isinstance(graph, FuncGraph):
        graphs.add(id(graph))
        graph = graph.outer_graph
    return graphs


def _entries() -> Iterator[tuple[str, Any]]:
    """The entries that were registered while a function was traced, each with the graph that it holds."""
    for name, entry in list(ops.gradient_registry._registry.items()):
        if name.startswith("CustomGradient-"):
            graph = _graph_of(entry["type"])
            if graph is not None:
                yield name, graph


def _graph_of(closure: Any) -> Any:
    """The graph of the symbolic tensors that a closure holds, at any depth."""
    waiting, seen = [closure], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.FunctionType):
            waiting += [cell.cell_contents for cell in each.__closure__ or () if _is_filled(cell)]
        elif isinstance(each, (list, tuple)):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, ops.SymbolicTensor) and isinstance(each.graph, FuncGraph):
            return each.graph
    return None


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _captured_handles(graph: Any) -> list[Any]:
    """The handles of the variables that a graph captures from outside of all graphs."""
    handles = []
    for outside, _ in graph.captures:
        if isinstance(outside, ops.EagerTensor) and outside.dtype.name == "resource":
            handles.append(outside)
    return handles


def _line(graph: Any) -> str | None:
    return next((line for line in map(find_user_line, graph.get_operations()) if line is not None), None)
