"""An array that a `tf.function` or a function of `Dataset.map` reads from outside becomes a constant of its graph.

While the function is traced, TensorFlow writes the constant into the graph several times. For an array of 256 MiB,
TensorFlow 2.21 was measured at 10 copies (2.5 GiB) while a `tf.function` was traced and 6 copies afterwards, and at 16
copies (4 GiB) for a function given to `Dataset.map`. Each new trace adds constants, and an array of more than 2 GB is
an error, because a graph cannot be larger.

Give the function the rows that it needs as an argument. If it needs the whole array, make one `tf.Variable` of it
outside of the function: the function refers to a variable and does not copy it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.module import Module
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.doctor.sizes import describe, find_size

_LEAST_BYTES = 16 << 20
_COPIES = 10
_LARGEST_GRAPH_BYTES = 2 << 30
_LIBRARIES = ("tensorflow.", "keras.")
_PYTHON_FUNCTIONS = ("tensorflow.py_function", "tensorflow.numpy_function", "tensorflow.init_scope")


def _check(module: Module) -> Iterator[Problem]:
    for name in module.nodes(ast.Name):
        if not isinstance(name.ctx, ast.Load) or not _becomes_tensor(module, name) or not module.is_traced(name):
            continue
        size = find_size(module, name)
        if size is None or not size.is_at_least(_LEAST_BYTES) or not _is_from_outside(module, name):
            continue
        cost = f"{_COPIES} copies or more while it is traced, {size.times(_COPIES)}with {describe(module, size)}"
        if size.bytes is not None and size.bytes >= _LARGEST_GRAPH_BYTES:
            cost = f"{describe(module, size)} is larger than a graph may be, 2 GiB, and tracing fails"
        yield Problem(
            name,
            f"{name.id} becomes a constant of the function's graph: {cost}",
            "give the function the rows that it needs as an argument, or refer to a tf.Variable made outside of it",
        )


def _becomes_tensor(module: Module, name: ast.Name) -> bool:
    """Whether TensorFlow converts what a name is: it is an argument of a function of TensorFlow, a layer or a model."""
    above = module.scopes.parent(name)
    while isinstance(above, (ast.BinOp, ast.List, ast.Tuple, ast.keyword, ast.Dict)):
        name, above = above, module.scopes.parent(above)  # type: ignore[assignment]
    if not isinstance(above, ast.Call) or name is above.func:
        return False
    function = module.name(above.func) or ""
    if function in _PYTHON_FUNCTIONS:
        return False
    return function.startswith(_LIBRARIES) or module.kind(above.func) in ("model", "layer")


def _is_from_outside(module: Module, name: ast.Name) -> bool:
    """Whether a name is bound outside of the function that is traced."""
    bindings = module.scopes.find(name)
    traced = [each for each in module.scopes.ancestors(name) if module.is_traced(each)]
    outermost = traced[-1] if traced else None
    return not any(above is outermost for binding in bindings for above in module.scopes.ancestors(binding.node))


RULE = Rule("LT102", "whole array closed over by a traced function", _check, __doc__)
