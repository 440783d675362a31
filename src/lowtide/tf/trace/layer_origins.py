"""Which layer an op of a traced graph works for, where its own name does not say it.

An optimizer's ops and the loss's are in nobody's scope. They belong to the layer whose gradient or output they use, or
whose variable they read: the nearest of their origins that has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lowtide.tf.trace.source_lines import inner_functions
from lowtide.tide.layers import find_layer, find_owner, find_slot_owners

COPY = "copy of "
"""What XLA made of an argument is called so, and by the argument's name."""
# How many of an op's origins are asked.
FARTHEST_ORIGIN = 64


def layer_finder(
    concrete: Any, layers: frozenset[str], kinds: Mapping[int, tuple[str, str]]
) -> Callable[[str], str | None]:
    """A function from the names of ops to layers; `kinds` holds kind and path of variables by their handle."""
    if not layers:
        return lambda name: None
    graphs = [concrete.graph, *inner_functions(concrete.graph).values()]
    owners = _variable_owners(layers, kinds)
    captured = {id(inside): outside for graph in graphs for outside, inside in getattr(graph, "captures", ())}
    # A function that is called knows its arguments by names without capitals and slashes.
    arguments = {_argument_name(inside): inside for graph in graphs for _, inside in getattr(graph, "captures", ())}
    known: dict[str, str | None] = {}

    def find(name: str) -> str | None:
        if name not in known:
            variable = name.removeprefix(COPY)
            known[name] = _ask(name) if variable == name else _ask_variable(variable)
        return known[name]

    def _ask(name: str) -> str | None:
        return find_layer(name, layers) or _ask_origins(_operation(graphs, name))

    def _ask_variable(name: str) -> str | None:
        """A variable is known by its path, or by the argument that stands for it in a function."""
        argument = arguments.get(name)
        layer = None if argument is None else owners.get(_handle(argument, captured))
        return layer or find_owner(name, layers)

    def _ask_origins(operation: Any) -> str | None:
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
            if len(seen) > FARTHEST_ORIGIN:
                break
        return None

    return find


def _argument_name(tensor: Any) -> str:
    return re.sub(r"[^a-z0-9_]", "_", str(tensor.op.name).lower())


def _variable_owners(layers: frozenset[str], kinds: Mapping[int, tuple[str, str]]) -> dict[int, str]:
    weights, slots = ([path for kind, path in kinds.values() if kind == each] for each in ("weights", "optimizer"))
    slot_owners = find_slot_owners(slots, weights, layers)
    found = {handle: slot_owners.get(path) or find_owner(path, layers) for handle, (_, path) in kinds.items()}
    return {handle: layer for handle, layer in found.items() if layer is not None}


def _handle(tensor: Any, captured: Mapping[int, Any]) -> int:
    """The identity of the handle behind a tensor that a function took from outside, function by function."""
    while id(tensor) in captured:
        tensor = captured[id(tensor)]
    return id(tensor)


def _operation(graphs: list[Any], name: str) -> Any:
    """The op of that name in one of the graphs; what was inlined has the name of its call before its own."""
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
