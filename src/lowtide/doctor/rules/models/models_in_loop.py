"""Each model that is compiled and trained in a loop stays in memory after the loop has dropped it.

TensorFlow registers the gradient of a function that the optimizer traces, and never removes it; with it stay the graph
of the training step, the weights, and the optimizer's slots. A model with 17,000 weights, trained for one step in a
loop, left 4.7 MiB in each round. `del model` and `gc.collect()` do not help, and with `keras.backend.clear_session()`
it was still 3.8 MiB; with `lt.release(model)` it was 0.5 MiB.

```python
for rate in rates:
    model = make_model(rate)
    model.fit(x, y)
    lt.release(model)
    del model
```

A search over many models is also safe if each is trained in a process of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Loop, Module
from lowtide.doctor.code.steps import known_rounds, own_nodes
from lowtide.doctor.code.values import MODEL
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

# A loop over as few models is not worth a line, and ten folds or ten settings of small models are none either.
_FEW = 4
_FEW_SMALL = 20
_LARGE = ("keras.applications.", "tensorflow_hub.", "keras.models.load_model", "keras.saving.load_model")
_TRAINS = ("fit", "fit_generator", "train_on_batch")
_RELEASES = ("clear_session", "release", "reset_default_graph", "Process", "Pool", "ProcessPoolExecutor")


def _check(module: Module) -> Iterator[Problem]:
    few = _FEW if any(module.calls(*_LARGE)) else _FEW_SMALL
    for statement in module.nodes(ast.Assign):
        target = statement.targets[0]
        loops = module.loops_around(statement)
        if not loops or not isinstance(target, ast.Name) or not isinstance(statement.value, ast.Call):
            continue
        if not _makes_model(module, statement.value):
            continue
        loop = loops[0]
        if isinstance(loop, ast.While):
            # How often it runs cannot be read; mostly it ends with the first good model.
            continue
        if not _is_trained(module, loop, statement) or _is_kept(module, loop, target.id) or _releases(module, loop):
            continue
        rounds = known_rounds(module, loop)
        total = known_rounds(module, loops[-1]) if len(loops) > 1 else None
        if rounds is not None and rounds <= few and (len(loops) == 1 or (total is not None and total * rounds <= few)):
            continue
        times = f"{rounds:,} models are" if rounds and len(loops) == 1 else "a model is"
        yield _problem(statement, times, f"call lt.release({target.id})")
    yield from _check_chains(module, few)


def _problem(node: ast.AST, times: str, release: str) -> Problem:
    return Problem(
        node,
        f"{times} made and trained in this loop, and the weights, optimizer slots and graphs of each stay in memory"
        " after it",
        f"{release} at the end of each round; keras.backend.clear_session() alone does not return this memory",
    )


def _check_chains(module: Module, few: int) -> Iterator[Problem]:
    """Find models that are trained without a name, as in `make_model(rate).fit(x, y)`."""
    for call, owner in module.method_calls("fit"):
        loops = module.loops_around(call)
        if not loops or not isinstance(owner, ast.Call) or not _makes_model(module, owner):
            continue
        rounds = known_rounds(module, loops[0])
        if not _releases(module, loops[0]) and (rounds is None or rounds > few):
            yield _problem(call, f"{rounds:,} models are" if rounds else "a model is", "call lt.release()")


def _makes_model(module: Module, call: ast.Call) -> bool:
    value = module.value(call)
    if value is None or value.kind != MODEL:
        return False
    # A model of Keras's applications that is shared, or one that a function returns each time: both are new objects.
    return not isinstance(call.func, ast.Attribute) or module.name(call.func) is not None


def _is_trained(module: Module, loop: Loop, made: ast.Assign) -> bool:
    """Whether a model is trained after it was made, in the same round."""
    name = made.targets[0].id  # type: ignore[attr-defined]
    for node in own_nodes(*loop.body):
        if getattr(node, "lineno", 0) <= made.lineno:
            continue
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr in _TRAINS and _last(method.value) == name:
            return True
    return False


def _is_kept(module: Module, loop: Loop, name: str) -> bool:
    """Whether the models of a loop are needed after it, or the loop ends with the first one."""
    for node in own_nodes(*loop.body):
        if isinstance(node, (ast.Return, ast.Yield, ast.Break)):
            loops = module.loops_around(node)
            if isinstance(node, ast.Break) and (not loops or loops[0] is not loop):
                continue
            return True
        is_added = isinstance(node, ast.Call) and _last(node.func) in ("append", "add", "extend", "setdefault")
        is_stored = isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Subscript, ast.Attribute))
        # `best_model = model` keeps one of them.
        is_named = isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        if (is_added or is_stored or is_named) and _has_whole(module, node, name):
            return True
    return False


def _has_whole(module: Module, node: ast.AST, name: str) -> bool:
    """Whether a model itself is in a statement, and not only something that is asked of it."""
    return any(
        isinstance(part, ast.Name)
        and part.id == name
        and isinstance(part.ctx, ast.Load)
        and not isinstance(module.scopes.parent(part), ast.Attribute)
        for part in ast.walk(node)
    )


def _releases(module: Module, loop: Loop) -> bool:
    """Whether a loop does something about the memory of its models, itself or in a function that it calls."""
    # A function may clear the session when its loop is over.
    function = module.function_around(loop)
    nodes = function.body if isinstance(function, ast.FunctionDef) else loop.body
    for node in own_nodes(*nodes):
        if isinstance(node, ast.Call):
            if _last(node.func) in _RELEASES:
                return True
            value = module.value(node.func) if isinstance(node.func, ast.Name) else None
            if value is not None and isinstance(value.origin, ast.FunctionDef):
                calls = (each for each in own_nodes(*value.origin.body) if isinstance(each, ast.Call))
                if any(_last(each.func) in _RELEASES for each in calls):
                    return True
    return False


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


RULE = Rule("LT501", "models made in a loop", _check, __doc__)
