"""A list that collects the loss tensor of every step grows for as long as the training runs.

`losses.append(loss)` keeps a tensor of each step alive: on a GPU each takes a block of the allocator there, at least
256 bytes and often in the way of larger ones, and in the process about 0.9 KiB, as measured. Gradients that are
collected like this keep their whole size, that of all weights. `float(loss)` or `loss.numpy()` keeps only the number.
It waits for the step to finish; if that matters, update a `keras.metrics.Mean` in the step and read it once in each
epoch.

A list that is made anew in each epoch is not reported if it holds scalars: it stays small. A sum such as
`total += loss` is one tensor, because TensorFlow keeps nothing of how it was computed outside of a tape.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Loop, Module
from lowtide.doctor.code.scopes import Binding
from lowtide.doctor.code.steps import (
    contains,
    find_batches,
    is_graph_mode,
    is_training,
    known_rounds,
    own_nodes,
    tapes_around,
)
from lowtide.doctor.code.values import GRADIENTS, LOSS, TENSOR
from lowtide.doctor.problem import Edit, Problem
from lowtide.doctor.rule import Rule

# A list of fewer scalars is not worth a line.
_FEW = 200
_SCALARS = ("tensorflow.reduce_mean", "tensorflow.reduce_sum", "keras.ops.mean", "keras.ops.sum")
_TAKES = ("clear", "pop", "popleft")
# Functions that read a list of numbers as they read a list of scalar tensors.
_READERS = (
    "numpy.",
    "tensorflow.reduce_",
    "matplotlib.",
    "builtins.len",
    "builtins.sum",
    "builtins.min",
    "builtins.max",
)


def _check(module: Module) -> Iterator[Problem]:
    if is_graph_mode(module):
        return
    for call, owner in module.method_calls("append"):
        if len(call.args) != 1 or _is_in_graph(module, call):
            continue
        if module.loops_around(call):
            yield from _check_kept(module, call, owner, call.args[0])
        elif _is_of_step_function(module, call, owner) and _is_scalar_loss(module, call.args[0]):
            yield _problem(module, call, owner, call.args[0])
    for statement in module.nodes(ast.Assign):
        target = statement.targets[0]
        if not isinstance(target, ast.Subscript) or not module.loops_around(statement):
            continue
        if _is_dictionary(module, target.value) and not _is_in_graph(module, statement):
            yield from _check_kept(module, statement, target.value, statement.value)


def _is_of_step_function(module: Module, call: ast.Call, owner: ast.expr) -> bool:
    """Whether a function that makes one step of training appends to a list that lives longer than the call."""
    function = module.function_around(call)
    value = module.value(call.args[0])
    if not isinstance(function, ast.FunctionDef) or value is None or value.kind != TENSOR:
        return False
    if not isinstance(owner, ast.Name) or any(
        contains(module, function, each.node) for each in _bindings(module, owner)
    ):
        return False
    steps = [
        each for each in own_nodes(*function.body) if isinstance(each, ast.Call) and _name(each) == "apply_gradients"
    ]
    return bool(steps) and not any(module.loops_around(each) for each in steps) and bool(_bindings(module, owner))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _problem(module: Module, node: ast.AST, owner: ast.expr, kept: ast.expr) -> Problem:
    return Problem(
        node,
        f"{module.short_text(owner)} keeps the tensor {module.short_text(kept)} of every step on its device for as"
        " long as the list exists",
        f"keep the number, float({module.text(kept)}) or .numpy(), or update a keras.metrics.Mean in the step",
        _fix(module, owner, kept),
    )


def _is_in_graph(module: Module, node: ast.AST) -> bool:
    """Whether a tensor may be needed for a gradient, or is none of numbers."""
    return bool(tapes_around(module, node)) or module.is_traced(node)


def _check_kept(module: Module, node: ast.AST, owner: ast.expr, kept: ast.expr) -> Iterator[Problem]:
    loops = module.loops_around(node)
    value = module.value(kept)
    if not loops or value is None or value.kind not in (TENSOR, GRADIENTS) or isinstance(kept, ast.Subscript):
        return
    inner = [loop for loop in loops if not _is_emptied(module, owner, loop)]
    shown = module.short_text(owner)
    if value.kind == GRADIENTS:
        if len(inner) == len(loops) and find_batches(module, loops[0]):
            yield Problem(
                node,
                f"{shown} keeps the gradients of every step: as many copies of all weights as there are steps",
                "add the gradients up in one tf.Variable for each weight, with assign_add",
            )
        return
    # Scalars count only in a list that is never emptied; the loop must be the one that makes the steps.
    if len(inner) < len(loops) or not _is_scalar_loss(module, kept) or not is_training(module, loops[0]):
        return
    rounds = 1
    for loop in loops:
        number = known_rounds(module, loop)
        rounds *= _FEW if number is None else number
    if rounds >= _FEW:
        yield _problem(module, node, owner, kept)


def _is_scalar_loss(module: Module, node: ast.expr) -> bool:
    """Whether a tensor is a loss."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if "loss" in name.lower():
        return True
    value = module.value(node)
    return value is not None and _is_scalar(module, value.origin)


def _is_scalar(module: Module, made: ast.AST) -> bool:
    """Whether an expression is surely a tensor of one number."""
    if not isinstance(made, ast.Call):
        return False
    if module.name(made.func) in _SCALARS:
        return len(made.args) == 1 and not made.keywords
    maker = module.value(made.func)
    if maker is None:
        return False
    if maker.kind == LOSS and isinstance(maker.origin, ast.Call):
        return module.argument(maker.origin, None, "reduction") is None
    if isinstance(maker.origin, ast.FunctionDef):
        returns = [each.value for each in own_nodes(*maker.origin.body) if isinstance(each, ast.Return)]
        values = [module.value(each) for each in returns]
        return bool(values) and all(each is not None and _is_scalar(module, each.origin) for each in values)
    return False


def _bindings(module: Module, owner: ast.expr) -> list[Binding]:
    scope = module.scopes.scope_of(owner)
    while isinstance(owner, ast.Name) and scope is not None:
        if found := scope.bindings.get(owner.id):
            return found
        scope = scope.parent  # type: ignore[assignment]
    return []


def _is_dictionary(module: Module, owner: ast.expr) -> bool:
    made = [each.value for each in _bindings(module, owner)]
    return bool(made) and all(
        isinstance(each, ast.Dict)
        or (isinstance(each, ast.Call) and module.name(each.func) in ("builtins.dict", "collections.defaultdict"))
        for each in made
    )


def _is_emptied(module: Module, owner: ast.expr, loop: Loop) -> bool:
    """Whether a loop makes the list, empties it, or takes out of it."""
    if any(contains(module, loop, each.node) for each in _bindings(module, owner)):
        return True
    text = ast.dump(owner)
    for node in own_nodes(*loop.body):
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr in _TAKES and ast.dump(method.value) == text:
            return True
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else []
        for target in targets:
            whole = (
                target.value if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice) else target
            )
            if ast.unparse(whole) == ast.unparse(owner):
                return True
    return not isinstance(owner, ast.Name) and _first_name(owner) is not None and _is_bound_in(module, owner, loop)


def _first_name(node: ast.expr) -> ast.Name | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _is_bound_in(module: Module, owner: ast.expr, loop: Loop) -> bool:
    name = _first_name(owner)
    return name is not None and any(contains(module, loop, each.node) for each in _bindings(module, name))


def _fix(module: Module, owner: ast.expr, kept: ast.expr) -> tuple[Edit, ...]:
    """Return the edit, if the tensor is a scalar and all uses of the list take numbers as well."""
    value = module.value(kept)
    is_simple = isinstance(kept, (ast.Name, ast.Attribute, ast.Call))
    if value is None or not is_simple or not _is_scalar(module, value.origin) or not isinstance(owner, ast.Name):
        return ()
    for node in module.nodes(ast.Name):
        if node.id != owner.id or not isinstance(node.ctx, ast.Load):
            continue
        above = module.scopes.parent(node)
        is_read = isinstance(above, ast.Call) and node in above.args
        name = (module.name(above.func) or "") if is_read and isinstance(above, ast.Call) else ""
        is_method = isinstance(above, ast.Attribute) and above.attr in ("append", "clear")
        if not is_method and not name.startswith(_READERS):
            return ()
    # NumPy's number has the dtype of the tensor, so that means of the list stay the same.
    return (module.replace(kept, f"{module.text(kept)}.numpy()"),)


RULE = Rule("LT401", "tensors kept across steps", _check, __doc__)
