"""`tf.recompute_grad` and `keras.remat` around Dropout or BatchNormalization give wrong gradients, without an error.

Both run a function again in the backward pass, to get its activations without keeping them. Dropout draws another mask
when it runs again, so the gradients belong to another network than the loss: with a rate of 0.5, half of the elements
get the gradient of a mask that they did not have, also with a seed. BatchNormalization updates its moving averages a
second time. Memory does fall, and nothing warns.

`lt.function(budget=...)` and `lt.fit_in(model, budget=...)` recompute operations of the graph that was traced: random
operations keep what they drew, and updates run once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.values import Value
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_WRAPPERS = (
    "tensorflow.recompute_grad", "keras.remat", "tensorflow.contrib.layers.recompute_grad",
    "tensorflow_addons.utils.recompute_grad",
)  # fmt: skip
_RANDOM = ("Dropout", "GaussianNoise", "GaussianDropout", "AlphaDropout", "SpatialDropout")
_FUNCTIONS = (
    "tensorflow.nn.dropout", "tensorflow.random.normal", "tensorflow.random.uniform", "tensorflow.nn.alpha_dropout",
    "keras.backend.dropout",
)  # fmt: skip
_DEEPEST = 4


def _check(module: Module) -> Iterator[Problem]:
    if '"jax"' in module.source.text or '"torch"' in module.source.text:
        return
    for call in module.calls(*_WRAPPERS):
        if call.args:
            yield from _check_wrapped(module, call, call.args[0], module.name(call.func) or "")
    for function in module.nodes(ast.FunctionDef):
        for decorator in function.decorator_list:
            name = module.name(decorator)
            if name in _WRAPPERS:
                yield from _report(module, decorator, name, _in_function(module, function, 0))


def _check_wrapped(module: Module, call: ast.Call, wrapped: ast.expr, name: str) -> Iterator[Problem]:
    yield from _report(module, call, name, _in_expression(module, wrapped, 0))


def _report(module: Module, node: ast.AST, wrapper: str, found: tuple[ast.AST, str] | None) -> Iterator[Problem]:
    if found is None:
        return
    where, name = found
    shown = {"tensorflow": "tf"}.get(wrapper.partition(".")[0], "keras") + "." + wrapper.rpartition(".")[2]
    effect = (
        "its moving averages are updated twice in each step"
        if "BatchNorm" in name
        else "it draws other numbers when it runs again, and the gradients are wrong"
    )
    yield Problem(
        node,
        f"{shown} runs {name} ({module.line(where)}) a second time in the backward pass: {effect}",
        f"leave {name} outside of the recomputed function, or use lt.fit_in or lt.function(budget=...), which recompute"
        " without running it twice",
    )


def _in_expression(module: Module, node: ast.expr, depth: int) -> tuple[ast.AST, str] | None:
    """Return the layer or function of chance in what is recomputed, and its name."""
    if depth > _DEEPEST:
        return None
    if isinstance(node, ast.Lambda):
        return _in_nodes(module, ast.walk(node.body), depth)
    if isinstance(node, ast.Attribute) and node.attr == "call":
        node = node.value
    if (method := _own_method(module, node)) is not None:
        return _in_function(module, method, depth)
    return _in_value(module, module.value(node), depth)


def _own_method(module: Module, node: ast.expr) -> ast.FunctionDef | None:
    """Return the method that `self.name` is."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id != "self":
        return None
    owner = module.class_around(node)
    body = [] if owner is None else owner.body
    return next((each for each in body if isinstance(each, ast.FunctionDef) and each.name == node.attr), None)


def _in_value(module: Module, value: Value | None, depth: int) -> tuple[ast.AST, str] | None:
    if value is None or depth > _DEEPEST:
        return None
    made = value.origin
    if isinstance(made, ast.FunctionDef):
        return _in_function(module, made, depth)
    if not isinstance(made, ast.Call):
        return None
    if (found := _of_layer(module, made)) is not None:
        return found
    if module.name(made.func) in ("keras.Sequential", "keras.models.Sequential"):
        return _in_nodes(module, ast.walk(made), depth)
    owner = module.value(made.func)
    if owner is not None and isinstance(owner.origin, ast.ClassDef):
        return _in_class(module, owner.origin, depth)
    return None


def _in_class(module: Module, owner: ast.ClassDef, depth: int) -> tuple[ast.AST, str] | None:
    call = next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "call"), None)
    return None if call is None else _in_function(module, call, depth)


def _in_function(module: Module, function: ast.FunctionDef, depth: int) -> tuple[ast.AST, str] | None:
    return _in_nodes(module, (part for each in function.body for part in ast.walk(each)), depth)


def _in_nodes(module: Module, nodes: Iterator[ast.AST], depth: int) -> tuple[ast.AST, str] | None:
    """Return the first call in some nodes that is of chance, or that calls something that is."""
    for node in nodes:
        if not isinstance(node, ast.Call) or _is_inference(module, node):
            continue
        name = module.name(node.func) or ""
        if name in _FUNCTIONS:
            return node, {"tensorflow": "tf"}.get(name.partition(".")[0], "keras") + "." + name.partition(".")[2]
        if (found := _of_layer(module, node)) is not None:
            return found
        if (
            isinstance(node.func, (ast.Name, ast.Attribute))
            and (found := _in_expression(module, node.func, depth + 1)) is not None
        ):
            return node, found[1]
    return None


def _of_layer(module: Module, made: ast.Call) -> tuple[ast.AST, str] | None:
    name = module.name(made.func) or ""
    last = name.rpartition(".")[2]
    if not name.startswith("keras.layers.") or not (last.startswith(_RANDOM) or "BatchNormalization" in last):
        return None
    rate = module.constant(module.argument(made, 0, "rate"))
    return None if rate == 0 and "Dropout" in last else (made, last)


def _is_inference(module: Module, call: ast.Call) -> bool:
    """Whether a call says that it is no training."""
    return module.constant(module.argument(call, None, "training")) is False


RULE = Rule("LT408", "recomputed Dropout or BatchNormalization", _check, __doc__)
