"""A session that is not closed holds its variables and its memory on the device.

A `tf.compat.v1.Session` gives them back when it is closed, or at some time after Python has dropped it. An
`InteractiveSession` makes itself the default session and is never dropped: in a loop, each keeps all its variables. In
a test with 1 MiB of variables the process grew by 4.3 MiB for each one, and by nothing when they were closed.

Use `with tf.compat.v1.Session() as session:`, or call `session.close()`.

A session that is made once, at the top level of a script or in a function that no loop calls, is not reported: the
process ends with it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.steps import own_nodes
from lowtide.doctor.code.values import SESSION
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_SCRIPTS = ("main", "_main", "run_main")
# Functions that are called for each input.
_REPEATED = re.compile(r"predict|infer|detect|classif|recogni|_step$")


def _check(module: Module) -> Iterator[Problem]:
    for statement in module.nodes(ast.Assign):
        target = statement.targets[0]
        call = statement.value
        if not isinstance(target, ast.Name) or not isinstance(call, ast.Call):
            continue
        value = module.value(call)
        if value is None or value.kind != SESSION or value.origin is not call:
            continue
        function = module.function_around(statement)
        in_loop = bool(module.loops_around(statement))
        if not in_loop and (function is None or getattr(function, "name", "") in _SCRIPTS):
            continue
        is_interactive = (module.name(call.func) or "").endswith("InteractiveSession")
        if not (in_loop or _is_repeated(module, function)):
            continue
        if _is_closed(module, target.id, function) or _is_test(module, function):
            continue
        where = "in every round of the loop" if in_loop else "in every call of this function"
        kept = (
            "as the default session it is never dropped, and keeps all its variables"
            if is_interactive
            else "its variables and their memory stay until Python collects it"
        )
        yield Problem(
            statement,
            f"the session is made {where} and never closed: {kept}",
            f"write `with tf.compat.v1.Session() as {target.id}:`, or call {target.id}.close()",
        )


def _is_repeated(module: Module, function: ast.AST | None) -> bool:
    """Whether a function runs again and again: by its name, or because a loop calls it."""
    if not isinstance(function, ast.FunctionDef):
        return False
    if _REPEATED.search(function.name):
        return True
    for call in module.nodes(ast.Call):
        value = module.value(call.func) if isinstance(call.func, ast.Name) and call.func.id == function.name else None
        if value is not None and value.origin is function and module.loops_around(call):
            return True
    return False


def _is_test(module: Module, function: ast.AST | None) -> bool:
    return (isinstance(function, ast.FunctionDef) and function.name.startswith(("test", "setUp"))) or (
        module.source.path.name.removesuffix(".py").endswith("_test")
    )


def _is_closed(module: Module, name: str, function: ast.AST | None) -> bool:
    """Whether a session is closed, entered, or given to something that may close it later."""
    body = module.tree.body if function is None else function.body  # type: ignore[attr-defined]
    if isinstance(function, ast.FunctionDef) and name in module.scopes.scope(function).elsewhere:
        return True
    for node in own_nodes(*body):
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        above = module.scopes.parent(node)
        if isinstance(above, ast.Attribute):
            if above.attr in ("close", "__enter__", "__exit__", "as_default"):
                return True
        elif not isinstance(above, (ast.keyword, ast.Call)) or _is_given_away(module, above):
            return True
    # A function within this one may close it.
    return any(
        isinstance(node, ast.Name) and node.id == name and module.function_around(node) not in (function, None)
        for each in body
        if function is not None
        for node in ast.walk(each)
    )


def _is_given_away(module: Module, above: ast.AST) -> bool:
    """Whether a call that gets the session makes an object, which may keep it."""
    call = module.scopes.parent(above) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call):
        return True
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name[:1].isupper() or name in ("set_session", "append", "enter_context", "closing")


RULE = Rule("LT502", "session not closed", _check, __doc__)
