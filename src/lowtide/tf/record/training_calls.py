"""Which calls of a program train: the others evaluate, predict or create variables, and are not steps."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lowtide.tf.trace.source_lines import inner_functions

# In the names of the ops that a tape adds to a graph, and of those that TensorFlow 1 added.
_TAPE, _GRADIENTS = "gradient_tape/", "gradients"
# In the name of a function that a tape derived from another one.
_BACKWARD = "__backward_"


def function_trains(concrete: Any) -> bool:
    """Whether a traced function computes gradients."""
    if _BACKWARD in tf.compat.as_str(concrete.name):
        return True
    graphs = (concrete.graph, *inner_functions(concrete.graph).values())
    return any(_is_gradient(operation.name) for graph in graphs for operation in graph.get_operations())


def fetches_train(graph: Any, fetches: Any) -> bool:
    """Whether the fetches of a session's run depend on gradients."""
    waiting = [_operation(graph, fetch) for fetch in _flat(fetches)]
    seen: set[int] = set()
    for operation in waiting:
        if operation is None or id(operation) in seen:
            continue
        seen.add(id(operation))
        if _is_gradient(operation.name):
            return True
        waiting += [tensor.op for tensor in operation.inputs]
        waiting += operation.control_inputs
    return False


def fetched_names(fetches: Any) -> str:
    """The names of the fetches of a session's run."""
    return " ".join(_name(fetch) for fetch in _flat(fetches))


def _is_gradient(name: str) -> bool:
    """Whether an op of this name computes a gradient."""
    return _TAPE in name or _GRADIENTS in name.split("/")[:-1]


def _flat(fetches: Any) -> list[Any]:
    try:
        return list(tf.nest.flatten(fetches))
    except (TypeError, ValueError):
        # A session accepts more kinds of fetches than tf.nest can flatten.
        return [fetches]


def _name(fetch: Any) -> str:
    return fetch if isinstance(fetch, str) else str(getattr(fetch, "name", type(fetch).__name__))


def _operation(graph: Any, fetch: Any) -> Any:
    try:
        element = graph.as_graph_element(fetch if not hasattr(fetch, "name") else _name(fetch))
    except (KeyError, ValueError, TypeError):
        return None
    return getattr(element, "op", element)
