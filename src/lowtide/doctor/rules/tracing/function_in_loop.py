"""`tf.function` called in a loop makes a new function in each pass, and each one is traced anew.

A function keeps its graphs. A new one has none: it is traced in each pass, which costs the time of a trace and about
120 KiB for a small function in TensorFlow 2.21. The same happens in a function that makes a `tf.function`, calls it and
forgets it, when that function is called in a loop. Make it once, outside, and give it what changes as tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.tracing import FEW, count_of
from lowtide.doctor.code.values import FUNCTION
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_ADVICE = "make the tf.function once, before the loop, and give it what changes as tensors"


def _check(module: Module) -> Iterator[Problem]:
    for call in module.calls("tensorflow.function"):
        if not _is_decorator(module, call):
            yield from _made(module, call, call, module.short_text(call))
    for function in module.nodes(ast.FunctionDef):
        decorator = module.values.tracing_decorator(function)
        given = decorator.keywords if isinstance(decorator, ast.Call) else []
        # A function with experimental_implements marks an op in the graph of its caller.
        if decorator is not None and not any(each.arg == "experimental_implements" for each in given):
            yield from _made(module, function, function, function.name)


def _made(module: Module, node: ast.AST, place: ast.AST, name: str) -> Iterator[Problem]:
    if module.is_traced(module.scopes.parent(node) or node):
        return
    if _runs_often(module, node):
        yield Problem(
            place,
            f"{name} is a new tf.function in each pass of the loop: each is traced anew, 120 KiB or more",
            _ADVICE,
        )
        return
    maker = module.function_around(node)
    if isinstance(maker, ast.FunctionDef) and _is_called_here(module, node, maker) and not _leaves(node, maker):
        line = _line_of_loop(module, maker)
        if line is not None:
            yield Problem(
                place,
                f"{name} is a new tf.function in each call of {maker.name}, which runs in the loop at line {line}: each"
                " is traced anew, 120 KiB or more",
                _ADVICE,
            )


def _is_decorator(module: Module, call: ast.Call) -> bool:
    above = module.scopes.parent(call)
    return isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and call in above.decorator_list


def _runs_often(module: Module, node: ast.AST, *, is_known: bool = False) -> bool:
    """Whether a loop of unknown or many passes, not over a few variants, contains a node."""
    for loop in module.loops_around(node):
        count = count_of(module, loop)
        if isinstance(loop, ast.While) or (count is not None and count > FEW):
            return True
        is_of_data = isinstance(loop, ast.For) and module.kind(loop.iter) == "dataset"
        if is_of_data or (
            isinstance(loop, ast.For) and not is_known and count is None and _is_of_steps(module, loop.iter)
        ):
            return True
    return False


def _is_of_steps(module: Module, iterable: ast.expr) -> bool:
    if isinstance(iterable, ast.Call) and module.name(iterable.func) in ("builtins.range", "builtins.enumerate"):
        return module.name(iterable.func) == "builtins.range" or _is_of_steps(module, iterable.args[0])
    return module.kind(iterable) == "dataset"


def _is_called_here(module: Module, node: ast.AST, maker: ast.FunctionDef) -> bool:
    """Whether the function that makes a tf.function calls it itself."""
    above = module.scopes.parent(node)
    if isinstance(above, ast.Call) and above.func is node:
        return True
    names = {node.name} if isinstance(node, ast.FunctionDef) else set()
    if isinstance(above, ast.Assign):
        names = {each.id for each in above.targets if isinstance(each, ast.Name)}
    calls = (each for each in ast.walk(maker) if isinstance(each, ast.Call))
    return any(isinstance(each.func, ast.Name) and each.func.id in names for each in calls)


def _leaves(node: ast.AST, maker: ast.FunctionDef) -> bool:
    """Whether the function that makes a tf.function has loops of its own, which use it often, or returns functions."""
    loops = any(isinstance(each, (ast.For, ast.While)) for each in ast.walk(maker))
    returned = [each.value for each in ast.walk(maker) if isinstance(each, ast.Return)]
    name = node.name if isinstance(node, ast.FunctionDef) else None
    return loops or any(isinstance(each, ast.Name) and each.id == name for each in returned)


def _line_of_loop(module: Module, function: ast.FunctionDef) -> int | None:
    """Return the line of a loop with many passes that calls a function of the module; None if there is none."""
    for call in module.nodes(ast.Call):
        if (
            isinstance(call.func, ast.Name)
            and call.func.id == function.name
            and _runs_often(module, call, is_known=True)
        ):
            value = module.value(call.func)
            if value is not None and value.kind == FUNCTION and value.origin is function:
                return module.source.find_place(module.loops_around(call)[0].lineno)[1]
    return None


RULE = Rule("LT303", "tf.function made again and again", _check, __doc__)
