"""`tf.constant` and `tf.convert_to_tensor` copy a whole array.

TensorFlow 2.21 holds two more copies of a NumPy array after `tf.constant(array)`: with the array itself that is three
times its bytes. In a graph (in a `tf.function`, or in a graph of `tf.compat.v1`) the array becomes a constant of the
graph, which takes more still, and an array of more than 2 GB is an error.

Let batches reach the model instead: `lt.feed.arrays` reads them from a file or an array within a budget. Where
TensorFlow needs a whole table, load it straight into a `tf.Variable` and delete the array.

Arrays are reported when they are read from a file as a whole, or when the code shows that a data set has 16 MiB or
more, an array of zeros or random numbers 32 MiB or more. Operands of linear algebra are not reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.sizes import describe, find_size
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_FUNCTIONS = ("tensorflow.constant", "tensorflow.convert_to_tensor", "keras.ops.convert_to_tensor")
_LEAST_BYTES = 16 << 20
# Arrays of zeros or random numbers that are not read from anywhere.
_LEAST_MADE_BYTES = 32 << 20
# These cannot be computed in batches of rows.
_ALGEBRA = ("tensorflow.matmul", "tensorflow.linalg.", "tensorflow.svd", "tensorflow.einsum", "tensorflow.tensordot")
_COPIES = 3
_COPIES_IN_GRAPH = 10
_COPIES_IN_SESSION = 7


def _check(module: Module) -> Iterator[Problem]:
    for call in module.calls(*_FUNCTIONS):
        array = module.argument(call, 0, "value") or module.argument(call, None, "x")
        size = find_size(module, array)
        if array is None or size is None or not size.is_at_least(_LEAST_BYTES if size.is_loaded else _LEAST_MADE_BYTES):
            continue
        if module.is_test and not size.is_loaded:
            continue
        copies, place = _cost(module, call)
        if copies == _COPIES and _is_whole_matrix(module, call):
            continue
        function = (module.name(call.func) or "").split(".")[-1]
        yield Problem(
            call,
            f"{'keras.ops' if 'keras' in (module.name(call.func) or '') else 'tf'}.{function} copies all of"
            f" {module.short_text(array)}{place}: {copies} copies, {size.times(copies)}with {describe(module, size)}",
            "use batches: lt.feed.arrays(x, y, batch_size=..., budget=...) reads them from a file or an array",
        )


def _cost(module: Module, call: ast.Call) -> tuple[int, str]:
    """Return how many copies there are at the peak, with the array itself, and where they are."""
    if module.is_traced(call):
        return _COPIES_IN_GRAPH, " into the graph of the function"
    if any(module.calls("tensorflow.Session", "tensorflow.InteractiveSession", "tensorflow.disable_eager_execution")):
        return _COPIES_IN_SESSION, " into the graph"
    return _COPIES, ""


def _is_whole_matrix(module: Module, call: ast.Call) -> bool:
    """Whether linear algebra needs all of a constant, directly or by the name that it gets."""
    above = module.scopes.parent(call)
    places = [each for each in (above, module.scopes.parent(above) if above else None) if isinstance(each, ast.Call)]
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        uses = (each for each in module.nodes(ast.Name) if each.id == above.targets[0].id)
        places += [each for each in map(module.scopes.parent, uses) if isinstance(each, ast.Call)]
    return any((module.name(each.func) or "").startswith(_ALGEBRA) for each in places)


RULE = Rule("LT103", "whole array in a constant", _check, __doc__)
