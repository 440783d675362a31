"""A persistent tape keeps all activations until the tape itself is gone.

A tape frees what it recorded while `gradient` goes backward. With `persistent=True` it keeps everything, so that
`gradient` can be called again. If it is called once, `persistent=True` only costs memory: remove it. If it is called
several times, `del tape` after the last call, where the name outlives its use: at the top level of a script or a
notebook the tape of the last step holds its activations through all that follows.

In a `tf.function` the activations are freed by the graph, and there it makes no difference.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.steps import contains, is_graph_mode, own_nodes
from lowtide.doctor.code.values import LAYER, MODEL
from lowtide.doctor.problem import Edit, Problem
from lowtide.doctor.rule import Rule

_USES = ("gradient", "watch", "stop_recording", "reset", "watched_variables")


def _check(module: Module) -> Iterator[Problem]:
    if is_graph_mode(module):
        return
    for call in module.calls("tensorflow.GradientTape"):
        item = module.scopes.parent(call)
        statement = None if item is None else module.scopes.parent(item)
        if not isinstance(item, ast.withitem) or not isinstance(statement, ast.With):
            continue
        persistent = module.argument(call, 0, "persistent")
        if (
            isinstance(persistent, ast.Constant)
            and persistent.value is True
            and isinstance(item.optional_vars, ast.Name)
        ):
            yield from _check_tape(module, call, statement, item.optional_vars)


def _check_tape(module: Module, call: ast.Call, statement: ast.With, target: ast.Name) -> Iterator[Problem]:
    uses = _uses(module, statement, target)
    if uses is None:
        return
    gradients = [each for each in uses if each.attr == "gradient"]
    if len(gradients) == 1 and _runs_once(module, gradients[0], statement):
        cost = "" if module.is_traced(call) else ": it keeps all activations during and after the backward pass"
        if cost:
            yield Problem(
                call,
                f"the tape is persistent, but gradient is called once, in {module.line(gradients[0])}{cost}",
                "remove persistent=True",
                (_without_argument(module, call),),
            )
    elif len(gradients) > 1 and _outlives(module, statement, target):
        yield Problem(
            call,
            f"the persistent tape {target.id} is never deleted: it holds the activations of its last step through all"
            " code that follows",
            f"write `del {target.id}` after the last call of {target.id}.gradient, in {module.line(gradients[-1])}",
        )


def _uses(module: Module, statement: ast.With, target: ast.Name) -> list[ast.Attribute] | None:
    """Return the uses of a tape, in the order of the text; None if it is used in ways that cannot be followed."""
    scope = module.scopes.scope_of(target)
    found = []
    for node in module.nodes(ast.Name):
        if node.id != target.id or node is target or module.scopes.scope_of(node) is not scope:
            if node.id == target.id and node is not target and _is_read_within(module, node, statement):
                return None
            continue
        if not isinstance(node.ctx, ast.Load):
            continue
        bindings = module.scopes.find(node)
        if not any(each.node is statement for each in bindings):
            continue
        above = module.scopes.parent(node)
        if len(bindings) > 1 or not isinstance(above, ast.Attribute) or above.attr not in _USES:
            return None
        found.append(above)
    return sorted(found, key=lambda each: (each.lineno, each.col_offset))


def _is_read_within(module: Module, node: ast.Name, statement: ast.With) -> bool:
    """Whether a name in a function or comprehension may be that of the statement's tape."""
    return isinstance(node.ctx, ast.Load) and any(each.node is statement for each in module.scopes.find(node))


def _runs_once(module: Module, use: ast.Attribute, statement: ast.With) -> bool:
    """Whether a use runs once for each time that the tape is made."""
    around = set(module.loops_around(statement))
    return all(loop in around for loop in module.loops_around(use)) and not module.is_in_comprehension(use)


def _outlives(module: Module, statement: ast.With, target: ast.Name) -> bool:
    """Whether a tape that holds the activations of a model stays after its use."""
    if module.function_around(statement) is not None or module.class_around(statement) is not None:
        return False
    if re.search(
        rf"^\s*del\b.*\b{re.escape(target.id)}\b|^\s*{re.escape(target.id)}\s*=\s*None", module.source.text, re.M
    ):
        return False
    return any(
        isinstance(each, ast.Call) and module.kind(each.func) in (MODEL, LAYER) for each in own_nodes(*statement.body)
    ) and not _is_last(module, statement)


def _is_last(module: Module, statement: ast.With) -> bool:
    """Whether nothing that takes memory follows at the top level."""
    later = [
        each
        for each in module.tree.body
        if each.lineno > (statement.end_lineno or 0) and not contains(module, each, statement)
    ]
    work = (ast.For, ast.While, ast.With, ast.Assign)
    return not any(isinstance(each, work) for each in later)


def _without_argument(module: Module, call: ast.Call) -> Edit:
    """Return the edit that removes `persistent=True` from a call."""
    rest = [module.text(each) for each in call.args[1:]] if call.args else []
    rest += [module.text(each).strip() for each in call.keywords if each.arg != "persistent"]
    if call.args and rest and not call.keywords:
        rest = [f"watch_accessed_variables={rest[0]}"]
    return module.replace(call, f"{module.text(call.func)}({', '.join(rest)})")


RULE = Rule("LT403", "persistent tape", _check, __doc__)
