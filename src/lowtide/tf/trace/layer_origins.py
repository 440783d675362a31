"""The layer that an op of a traced graph belongs to, if its name does not contain one.

The ops of an optimizer or a loss are in no layer's scope. They belong to the layer whose gradient or output they use,
or whose variable they read: the layer of the nearest op upstream that has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lowtide.tf.trace.source_lines import inner_functions
from lowtide.tide.layers import find_layer, find_variable_layer, find_variable_layers

COPY = "copy of "
"""The prefix of the name of an argument's copy that XLA makes."""
# How many ops upstream of an op are searched.
MAX_ORIGINS = 64


def make_layer_finder(
    concrete: Any, layers: frozenset[str], kinds: Mapping[int, tuple[str, str]]
) -> Callable[[str], str | None]:
    """Return a function from names of ops to layers; `kinds` has kind and path of variables by their handle."""
    if not layers:
        return lambda name: None
    graphs = [concrete.graph, *inner_functions(concrete.graph).values()]
    owners = _variable_owners(layers, kinds)
    captured = {id(inside): outside for graph in graphs for outside, inside in getattr(graph, "captures", ())}
    # Inside a called function, the names of arguments have no capitals and slashes.
    arguments = {_argument_name(inside): inside for graph in graphs for _, inside in getattr(graph, "captures", ())}
    known: dict[str, str | None] = {}

    def find(name: str) -> str | None:
        if name not in known:
            variable = name.removeprefix(COPY)
            known[name] = find_op(name) if variable == name else find_variable(variable)
        return known[name]

    def find_op(name: str) -> str | None:
        return find_layer(name, layers) or find_upstream(_operation(graphs, name))

    def find_variable(name: str) -> str | None:
        """Find a variable by its path, or by the name of the argument that it is passed as."""
        argument = arguments.get(name)
        layer = None if argument is None else owners.get(_handle(argument, captured))
        return layer or find_variable_layer(name, layers)

    def find_upstream(operation: Any) -> str | None:
        waiting, seen = [operation] if operation is not None else [], set()
        for current in waiting:
            for tensor in current.inputs:
                if id(tensor.op) in seen:
                    continue
                seen.add(id(tensor.op))
                layer = owners.get(_handle(tensor, captured)) or find_layer(tensor.op.name, layers)
                if layer is not None:
                    return layer
                waiting.append(tensor.op)
            if len(seen) > MAX_ORIGINS:
                break
        return None

    return find


def _argument_name(tensor: Any) -> str:
    return re.sub(r"[^a-z0-9_]", "_", str(tensor.op.name).lower())


def _variable_owners(layers: frozenset[str], kinds: Mapping[int, tuple[str, str]]) -> dict[int, str]:
    known = find_variable_layers(kinds.values(), layers)
    found = {handle: known.get(path) or find_variable_layer(path, layers) for handle, (_, path) in kinds.items()}
    return {handle: layer for handle, layer in found.items() if layer is not None}


def _handle(tensor: Any, captured: Mapping[int, Any]) -> int:
    """Return the identity of the handle that a tensor captures, through nested functions."""
    while id(tensor) in captured:
        tensor = captured[id(tensor)]
    return id(tensor)


def _operation(graphs: list[Any], name: str) -> Any:
    """Return the op of that name in one of the graphs; the name of an inlined op starts with that of its call."""
    for candidate in _suffixes(name):
        for graph in graphs:
            try:
                return graph.get_operation_by_name(candidate)
            except (KeyError, ValueError):
                continue
    return None


def _suffixes(name: str) -> Iterator[str]:
    yield name
    while "/" in name:
        name = name.partition("/")[2]
        yield name
