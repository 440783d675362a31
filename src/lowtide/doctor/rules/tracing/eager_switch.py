"""Switches for debugging that stay on: no step becomes a graph.

`run_eagerly=True` in `compile`, `tf.config.run_functions_eagerly(True)` and `tf.data.experimental.enable_debug_mode()`
run each op by itself from Python. No graph is optimized, `jit_compile` has no effect, and each intermediate result
lives until Python releases it. Steps of many small ops take several times as long. Use the switches to find an error,
and remove them when it is found.

The rule leaves alone switches that the program turns off again, that depend on a condition, and models whose own code
calls `.numpy()`, draws from Python's generators or keeps things in Python, all of which works only eagerly.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.values import LAYER, MODEL
from lowtide.doctor.problem import Edit, Problem
from lowtide.doctor.rule import Rule

_SWITCHES = ("tensorflow.config.run_functions_eagerly", "tensorflow.config.experimental_run_functions_eagerly")
_DEBUG_MODE = "tensorflow.data.experimental.enable_debug_mode"
# What only works eagerly.
_EAGER_METHODS = ("numpy", "tolist", "item")


def _check(module: Module) -> Iterator[Problem]:
    if "test" in module.source.path.stem.split("_"):
        # A test of one step is done sooner than its graph would be made.
        return
    yield from _compiled(module)
    yield from _switched(module)


def _compiled(module: Module) -> Iterator[Problem]:
    trained = {module.text(owner) for _, owner in module.method_calls("fit", "train_on_batch")}
    for call, owner in module.method_calls("compile"):
        keyword = next((each for each in call.keywords if each.arg == "run_eagerly"), None)
        is_on = keyword is not None and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        if keyword is None or not is_on or module.text(owner) not in trained or _needs_eager(module):
            continue
        yield Problem(
            keyword,
            f"run_eagerly=True is left on: each op of {module.short_text(owner)}'s steps runs by itself from Python,"
            " and no graph is optimized",
            "remove it when the error is found; without it fit makes a graph of the step",
            (_removal(module, call, keyword),) if _is_plain(module, call) else (),
        )


def _switched(module: Module) -> Iterator[Problem]:
    switches = list(module.calls(*_SWITCHES))
    if all(module.constant(module.argument(each, 0, "run_eagerly")) is True for each in switches):
        for call in switches:
            if _is_unconditional(module, call) and not _needs_eager(module):
                yield Problem(
                    call,
                    f"{module.short_text(call)} is left on: no tf.function and no step of fit becomes a graph",
                    "remove it when the error is found",
                )
    for call in module.calls(_DEBUG_MODE):
        if _is_unconditional(module, call):
            yield Problem(
                call,
                "tf.data's debug mode is left on: each function of a pipeline runs from Python, and calls do not run in"
                " parallel",
                "remove it when the error is found",
            )


def _is_unconditional(module: Module, call: ast.Call) -> bool:
    branches = (ast.If, ast.IfExp, ast.FunctionDef, ast.Try, ast.With, ast.Lambda)
    return not any(isinstance(each, branches) for each in module.scopes.ancestors(call))


def _needs_eager(module: Module) -> bool:
    """Whether a step, a layer or a tf.function of the module does what only works eagerly."""
    if any(module.is_traced(call) for call, _ in module.method_calls(*_EAGER_METHODS)):
        return True
    return _has_own_step(module) and (_draws_in_python(module) or _keeps_in_steps(module))


def _has_own_step(module: Module) -> bool:
    """Whether a model of the module has a step of its own, which may call what a graph runs only once."""
    methods = (each for each in module.nodes(ast.FunctionDef) if each.name in ("train_step", "call"))
    return any(isinstance(module.scopes.parent(each), ast.ClassDef) for each in methods)


def _draws_in_python(module: Module) -> bool:
    """Whether functions of the module draw random numbers that a graph would draw once."""
    return any(module.function_around(call) is not None for call in module.calls("random.", "numpy.random."))


def _keeps_in_steps(module: Module) -> bool:
    """Whether a step changes an object of Python, which a graph would change once."""
    changed = [target for each in module.nodes(ast.Assign) for target in each.targets]
    changed += [each.target for each in module.nodes(ast.AugAssign)]
    changed += [owner for _, owner in module.method_calls("append", "extend")]
    return any(isinstance(each, ast.Attribute) and module.is_traced(each) for each in changed)


def _is_plain(module: Module, call: ast.Call) -> bool:
    """Whether only layers, losses and metrics of Keras are in a model."""
    own = any(module.values.class_kind(each) in (MODEL, LAYER, "metric", "loss") for each in module.nodes(ast.ClassDef))
    given = [*call.args, *(each.value for each in call.keywords)]
    return not own and not any(module.kind(each) in ("function", "traced function") for each in given)


def _removal(module: Module, call: ast.Call, keyword: ast.keyword) -> Edit:
    """Return the edit that removes an argument with its comma."""
    arguments: list[ast.AST] = sorted([*call.args, *call.keywords], key=lambda each: module.span(each))
    place = arguments.index(keyword)
    begin, end = module.span(keyword)
    if place > 0:
        begin = module.span(arguments[place - 1])[1]
    elif len(arguments) > 1:
        end = module.span(arguments[1])[0]
    return Edit((begin, end), "")


RULE = Rule("LT307", "eager switch left on", _check, __doc__)
