"""Give back what a discarded model still holds.

An optimizer sums gradients over replicas through a function with a gradient of its own. TensorFlow files that gradient,
a closure, in a registry for ever; the closure holds the graph of the training step, and the graph the variables that it
reads: weights, slots and metrics. `del`, `gc.collect()` and `clear_session()` do not reach it.

An entry of the registry is needed only when somebody asks for the gradient of an op in that very graph. So it may go
when no function is left that could run the graph; a function that is traced again files new ones.
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
from lowtide.tf.memory_meter import Meter
from lowtide.tf.references.gc_objects import instances_of
from lowtide.tf.references.holders import live_variables, variable_bytes
from lowtide.tf.trace.source_lines import find_user_line

_FUNCTIONS_OF_A_MODEL = ("train_function", "test_function", "predict_function")


@dataclass(frozen=True, slots=True)
class Released:
    """What `release` did: how many gradients it removed, the bytes of variables they kept, and the memory in use.

    `bytes_before` and `bytes_after` are the figure of `measured_by`. Variables that the caller's own model refers to go
    when the caller lets go of it; `held_bytes` counts them all.
    """

    entries: int
    held_bytes: int
    bytes_before: int | None
    bytes_after: int | None
    measured_by: str


@dataclass(frozen=True, slots=True)
class DeadModel:
    """Variables that only a graph in the registry still holds: of a model, or (not `whole`) of an optimizer it had."""

    bytes: int
    variables: int
    whole: bool
    source: str | None


def release(model: Any = None) -> Released:
    """Let go of what TensorFlow keeps of a Keras model that is done with; of all models that are gone, without one.

    Drop the model afterwards (`del model`). If it is used after all, it is traced again. Other models, also ones that
    share its layers, are left alone.
    """
    meter = Meter()
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
    """Models whose variables live on in the registry's graphs alone, the oldest first; of some entries alone."""
    living = {id(each.handle) for each in live_variables()}
    # Training and evaluation of one model are two graphs that share its variables.
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
    """The names of all gradients that are filed by now."""
    return frozenset(ops.gradient_registry._registry)


def _dead_model(handles: dict[int, Any], graphs: list[Any], living: set[int]) -> DeadModel:
    total = sum(map(variable_bytes, handles.values()))
    whole = not any(id(each) in living for graph in graphs for each in _captured_handles(graph))
    return DeadModel(total, len(handles), whole, _line(graphs[0]))


def _handles_of(model: Any) -> set[int]:
    variables = list(getattr(model, "variables", ()))
    if not variables and not hasattr(model, "layers"):
        raise LowtideError("release takes a Keras model", given=type(model).__name__, cure="pass the model, or nothing")
    variables += getattr(getattr(model, "optimizer", None), "variables", [])
    values = (getattr(variable, "value", variable) for variable in variables)
    return {id(value.handle) for value in values if hasattr(value, "handle")}


def _forget_functions(model: Any) -> None:
    """Drop the functions that Keras made for this model; it makes new ones when they are needed."""
    for name in _FUNCTIONS_OF_A_MODEL:
        if getattr(model, name, None) is not None:
            setattr(model, name, None)


def _remove_entries(handles: set[int] | None) -> dict[Any, int]:
    """Remove the entries whose graph nobody can run, and return their graphs with how many each had.

    The graph of one entry may hold functions whose graphs have entries too, so this goes on until nothing is left.
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
    """Graphs that some function can still run, and those that are being built."""
    inner = {id(each) for graph in removed for each in getattr(graph, "_functions", {}).values()}
    functions = [each for each in instances_of(ConcreteFunction, AtomicFunction) if id(each) not in inner]
    graphs = {id(getattr(function, "graph", None)) for function in functions}
    graph: Any = ops.get_default_graph()
    while isinstance(graph, FuncGraph):
        graphs.add(id(graph))
        graph = graph.outer_graph
    return graphs


def _entries() -> Iterator[tuple[str, Any]]:
    """The entries that were made while a function was traced, each with the graph that it keeps."""
    for name, entry in list(ops.gradient_registry._registry.items()):
        if name.startswith("CustomGradient-"):
            graph = _graph_of(entry["type"])
            if graph is not None:
                yield name, graph


def _graph_of(closure: Any) -> Any:
    """The graph of the symbolic tensors that a closure holds, however deep."""
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
    """The handles of variables that a graph reads, from outside of all graphs."""
    handles = []
    for outside, _ in graph.captures:
        if isinstance(outside, ops.EagerTensor) and outside.dtype.name == "resource":
            handles.append(outside)
    return handles


def _line(graph: Any) -> str | None:
    return next((line for line in map(find_user_line, graph.get_operations()) if line is not None), None)
