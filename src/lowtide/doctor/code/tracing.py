"""Calls of traced functions, and what changes in the loops around them, as far as reading the code tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Loop, Module
from lowtide.doctor.code.values import TRACED

FEW = 5
"""As many traces of a function as TensorFlow makes without a warning."""


def traced_calls(module: Module) -> Iterator[tuple[ast.Call, ast.Call | None]]:
    """Yield the calls of traced functions by Python code, and the calls of tf.function that made these, if any."""
    for call in module.nodes(ast.Call):
        found = _origin(module, call)
        if found is not None and module.loops_around(call) and not module.is_traced(call):
            yield call, _maker(module, found)


def _origin(module: Module, call: ast.Call) -> ast.AST | None:
    """Return the traced function that is called, or the call of tf.function that returned it."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
        owner = module.class_around(call)
        for each in owner.body if owner is not None else ():
            if isinstance(each, ast.FunctionDef) and each.name == function.attr:
                return each if module.values.is_traced_by_decorator(each) else None
    value = module.value(function)
    if value is None or value.kind != TRACED or module.name(function) == "tensorflow.function":
        return None
    return value.origin


def _maker(module: Module, origin: ast.AST) -> ast.Call | None:
    if isinstance(origin, (ast.FunctionDef, ast.AsyncFunctionDef)):
        decorator = module.values.tracing_decorator(origin)
        return decorator if isinstance(decorator, ast.Call) else None
    return origin if isinstance(origin, ast.Call) else None


def option(module: Module, maker: ast.Call | None, name: str) -> object:
    """Return an option that tf.function was given; True for one that is not a constant, None if it was not given."""
    if maker is None:
        return None
    given = module.argument(maker, None, name)
    if given is None:
        return None
    value = module.constant(given)
    return True if value is None else value


def count_of(module: Module, loop: Loop | ast.comprehension) -> int | None:
    """Return how often a loop runs; None if that is unknown."""
    if isinstance(loop, ast.While):
        return None
    iterable = loop.iter
    if isinstance(iterable, (ast.List, ast.Tuple)):
        return len(iterable.elts)
    if isinstance(iterable, ast.Call) and module.name(iterable.func) == "builtins.enumerate" and iterable.args:
        iterable = iterable.args[0]
    if isinstance(iterable, ast.Call) and module.name(iterable.func) == "builtins.range":
        bounds = [module.constant(each) for each in iterable.args]
        whole = [each for each in bounds if isinstance(each, int)]
        if whole and len(whole) == len(bounds) and (len(whole) < 3 or whole[2] != 0):
            return len(range(*whole))
    return None


def counters(module: Module, loop: Loop) -> set[str]:
    """Return the names of the Python numbers that are others in each pass of a loop."""
    if isinstance(loop, ast.While):
        return {
            each.target.id
            for each in ast.walk(loop)
            if isinstance(each, ast.AugAssign)
            and isinstance(each.target, ast.Name)
            and isinstance(module.constant(each.value), (int, float))
            and _begins_as_number(module, each.target)
        }
    function = module.name(loop.iter.func) if isinstance(loop.iter, ast.Call) else None
    target: ast.expr = loop.target
    if function == "builtins.enumerate" and isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[0]
    elif function != "builtins.range":
        return set()
    return {target.id} if isinstance(target, ast.Name) else set()


def _begins_as_number(module: Module, name: ast.Name) -> bool:
    bindings = [each for each in module.scopes.find(name) if not isinstance(each.node, ast.AugAssign)]
    return bool(bindings) and all(isinstance(module.constant(each.value), (int, float)) for each in bindings)


def changing_number(module: Module, node: ast.expr, names: set[str], depth: int = 0) -> bool:
    """Whether an expression is a Python number that depends on one of the names, or on a tensor by `float(...)`."""
    if isinstance(node, ast.Name):
        if node.id in names:
            return True
        bindings = module.scopes.find(node)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].index is None else None
        is_plain = value is not None and not bindings[0].is_element and depth < 4
        return is_plain and value is not None and changing_number(module, value, names, depth + 1)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        numbers = [isinstance(module.constant(each), (int, float)) for each in sides]
        changing = [changing_number(module, each, names, depth) for each in sides]
        return any(changing) and all(one or other for one, other in zip(numbers, changing, strict=True))
    if isinstance(node, ast.Call) and module.name(node.func) in ("builtins.float", "builtins.int") and node.args:
        return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node.args[0]))
    return False


def changing_shape(module: Module, node: ast.expr, names: set[str], depth: int = 0) -> bool:
    """Whether an expression is a slice or an array whose shape depends on one of the names."""
    if isinstance(node, ast.Name):
        bindings = module.scopes.find(node)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].index is None else None
        if value is None or bindings[0].is_element or depth >= 4:
            return False
        return changing_shape(module, value, names, depth + 1)
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return any(isinstance(each, ast.Slice) and _changes_length(module, each, names) for each in parts)
    if isinstance(node, ast.Call):
        name = module.name(node.func) or ""
        if name.startswith(("tensorflow.", "numpy.")) and name.split(".")[-1] in _MAKERS and node.args:
            first = node.args[0]
            parts = first.elts if isinstance(first, (ast.List, ast.Tuple)) else [first]
            return any(changing_number(module, each, names) for each in parts)
        if name in ("tensorflow.constant", "tensorflow.convert_to_tensor", "numpy.array", "tensorflow.cast"):
            return bool(node.args) and changing_shape(module, node.args[0], names, depth)
    return False


_MAKERS = ("zeros", "ones", "rand", "randn", "normal", "uniform", "range", "arange", "empty")


def _changes_length(module: Module, part: ast.Slice, names: set[str]) -> bool:
    """Whether one end of a slice moves and the other does not."""
    changing = [each is not None and changing_number(module, each, names) for each in (part.lower, part.upper)]
    still = [each is None or isinstance(module.constant(each), int) for each in (part.lower, part.upper)]
    return (changing[0] and still[1]) or (changing[1] and still[0])


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Return all arguments of a call."""
    return [*call.args, *(each.value for each in call.keywords if each.arg is not None)]


def changing_arguments(module: Module, call: ast.Call, *, shapes: bool) -> Iterator[tuple[ast.expr, int | None]]:
    """Yield the arguments that are another Python number, or have another shape, in each pass of a loop.

    Each comes with the number of passes, None if it is unknown; loops of few passes are left out.
    """
    test = changing_shape if shapes else changing_number
    for loop in module.loops_around(call):
        count = count_of(module, loop)
        names = counters(module, loop)
        if count is None or count > FEW:
            for each in arguments_of(call):
                if names and test(module, each, names):
                    yield each, count
