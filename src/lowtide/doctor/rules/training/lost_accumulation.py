"""Gradients that are accumulated and zeroed in the same step are not accumulated at all.

To train with the gradients of four small batches, their sum has to live across four steps: the accumulators are made
once, before the loop, and are zeroed only after they were applied. If they are made or zeroed in every step, each
update uses the gradients of a single batch, and the batches of the other steps have no effect: the training computes
four times the gradients that it uses, with the statistics of the small batch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.steps import is_conditional, own_nodes, region_of
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_ZEROS = ("tensorflow.zeros_like", "tensorflow.zeros", "keras.ops.zeros_like", "keras.ops.zeros", "numpy.zeros_like")
# Names of what is counted.
_COUNTS = re.compile(r"step|accum|count|batch|iter", re.IGNORECASE)
_ADDS = ("assign_add",)


def _check(module: Module) -> Iterator[Problem]:
    for call, _ in module.method_calls("apply_gradients", "apply"):
        name = _applied(call)
        region = None if name is None else region_of(module, call)
        if name is None or region is None or isinstance(region, ast.Lambda):
            continue
        if not is_conditional(module, call, region) or not _is_of_some_steps(module, call, region):
            continue
        nodes = list(own_nodes(*region.body))  # type: ignore[attr-defined]
        added = [each for each in nodes if _adds(each, name) and _is_of_each_step(module, each, region, nodes)]
        for zeroed in nodes:
            if not _zeroes(module, zeroed, name) or is_conditional(module, zeroed, region):
                continue
            if len(added) == 1 and _is_of_each_step(module, zeroed, region, nodes):
                yield _problem(module, zeroed, call, name, region)
                break


def _is_of_some_steps(module: Module, call: ast.Call, region: ast.AST) -> bool:
    """Whether gradients are applied in some steps only: under a condition on a count of steps."""
    for above in module.scopes.ancestors(call):
        if above is region:
            return False
        if isinstance(above, (ast.If, ast.IfExp)):
            for part in ast.walk(above.test):
                name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
                if _COUNTS.search(name) or isinstance(part, ast.Mod):
                    return True
    return False


def _problem(module: Module, zeroed: ast.AST, call: ast.Call, name: str, region: ast.AST) -> Problem:
    test = next(each.test for each in module.scopes.ancestors(call) if isinstance(each, (ast.If, ast.IfExp)))
    where = "the loop" if isinstance(region, (ast.For, ast.While, ast.AsyncFor)) else f"{region.name}"  # type: ignore[attr-defined]
    return Problem(
        zeroed,
        f"{name} is set to zero in every step, so an update uses the gradients of one batch only, and those of the"
        f" steps in which `{module.short_text(test)}` is false are computed for nothing",
        f"make {name} once before {where}, for example as tf.Variable(tf.zeros_like(weight)) for each weight, and set"
        " it to zero only after apply_gradients; or set gradient_accumulation_steps of the Keras optimizer",
    )


def _applied(call: ast.Call) -> str | None:
    """Return the name of the gradients that are applied."""
    if not call.args:
        return None
    given = call.args[0]
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id in ("zip", "list"):
        given = given.args[0] if given.args else given
        if isinstance(given, ast.Call) and given.args:
            given = given.args[0]
    if isinstance(given, (ast.ListComp, ast.GeneratorExp)):
        # The mean of the gradients.
        given = given.generators[0].iter
    return given.id if isinstance(given, ast.Name) else None


def _zeroes(module: Module, node: ast.AST, name: str) -> bool:
    """Whether a statement sets the accumulators to zero."""
    if isinstance(node, ast.Assign):
        return any(isinstance(each, ast.Name) and each.id == name for each in node.targets) and _is_zeros(
            module, node.value
        )
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Name) and node.iter.id == name:
        return any(
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr == "assign"
            and bool(each.args)
            and _is_zeros(module, each.args[0])
            for each in own_nodes(*node.body)
        )
    return False


def _is_zeros(module: Module, node: ast.expr) -> bool:
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return _is_zeros(module, node.elt)
    if isinstance(node, ast.Call):
        name = module.name(node.func)
        if name in ("builtins.list", "tensorflow.Variable", "keras.Variable") and node.args:
            return _is_zeros(module, node.args[0])
        return name in _ZEROS
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _is_zeros(module, node.left)
    if isinstance(node, ast.List):
        return len(node.elts) == 1 and _is_zeros(module, node.elts[0])
    # `sums = None` is followed by a test, which is then always the same.
    return isinstance(node, ast.Constant) and node.value in (0, 0.0, None) and node.value is not False


def _adds(node: ast.AST, name: str) -> bool:
    """Whether a statement adds to the accumulators."""
    if isinstance(node, ast.AugAssign):
        target = node.target.value if isinstance(node.target, ast.Subscript) else node.target
        return isinstance(target, ast.Name) and target.id == name
    if isinstance(node, ast.Assign):
        targets = [each.value if isinstance(each, ast.Subscript) else each for each in node.targets]
        if not any(isinstance(each, ast.Name) and each.id == name for each in targets):
            return False
        read = [each for each in ast.walk(node.value) if isinstance(each, ast.Name) and each.id == name]
        adds = any(
            (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add))
            or (isinstance(each, ast.Attribute) and each.attr in ("add", "add_n"))
            for each in ast.walk(node.value)
        )
        return bool(read) and adds
    if isinstance(node, (ast.For, ast.ListComp)):
        # for i, gradient in enumerate(gradients): sums[i].assign_add(gradient)
        is_called = any(isinstance(each, ast.Attribute) and each.attr in _ADDS for each in ast.walk(node))
        return is_called and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
    return False


def _is_of_each_step(module: Module, node: ast.AST, region: ast.AST, nodes: list[ast.AST]) -> bool:
    """Whether a statement runs once for each gradient, and not in a loop over the pieces of a batch."""
    if region_of(module, node) is region:
        # A loop that computes gradients itself goes through the pieces of a batch.
        return not isinstance(node, ast.For) or not _has_gradients(node)
    inner = [each for each in nodes if isinstance(each, (ast.For, ast.While)) and node in ast.walk(each)]
    return not any(_has_gradients(each) or isinstance(each, ast.While) for each in inner)


def _has_gradients(loop: ast.AST) -> bool:
    """Whether a loop computes gradients, itself or in a function that it calls with batches."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("gradient", "compute_gradients", "GradientTape") or "step" in name or "grad" in name:
                return True
    return False


RULE = Rule("LT402", "accumulated gradients zeroed in every step", _check, __doc__)
