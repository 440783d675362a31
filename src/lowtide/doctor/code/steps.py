"""Loops over steps: which loops go through batches, which train, and what a loop does itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lowtide.doctor.code.module import Loop, Module
from lowtide.doctor.code.values import DATASET, FUNCTION, TAPE, TRACED

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
# Names that people give to datasets whose making is elsewhere.
_BATCHES = re.compile(r"(^|_)(ds|dataset|(data_?)?loader|batches)$|(^|_)(dataset|ds)_", re.IGNORECASE)
# Functions that go through their first argument, or through all of their arguments.
_THROUGH = ("enumerate", "zip", "iter", "tqdm", "trange", "track")
_GRAPH_MODE = re.compile(
    r"placeholder\(|\bSession\(|slim\b|global_variables_initializer|disable_eager_execution|disable_v2_behavior"
    r"|get_collection\(|autograph\.(to_graph|convert)"
)
# What makes a step of training of a loop.
_UPDATES = ("apply_gradients", "minimize", "train_on_batch")
_TRAINS = re.compile(r"(^|_)(train|training|optimi[sz]e|update)(_|$).*|(^|_)step$", re.IGNORECASE)


def is_graph_mode(module: Module) -> bool:
    """Whether a program builds its graph itself, as TensorFlow 1 did: its tensors have no numbers."""
    return _GRAPH_MODE.search(module.source.text) is not None


def own_nodes(*roots: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes and all that is in them, without what is in functions and classes defined there."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def contains(module: Module, outer: ast.AST, inner: ast.AST) -> bool:
    """Whether a node is in another one, or is it."""
    return outer is inner or any(above is outer for above in module.scopes.ancestors(inner))


def is_conditional(module: Module, node: ast.AST, region: ast.AST) -> bool:
    """Whether a node of a loop or function runs only in some of its rounds, as below an `if`."""
    child = node
    for above in module.scopes.ancestors(node):
        if above is region:
            return False
        is_branch = isinstance(above, (ast.If, ast.IfExp)) and child is not above.test
        if is_branch or isinstance(above, (ast.ExceptHandler, ast.Match)):
            return True
        child = above
    return False


def find_batches(module: Module, loop: ast.AST) -> ast.expr | None:
    """Return the dataset that a loop goes through, without `enumerate` and the like; None if it is none."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return None
    stack = [loop.iter]
    while stack:
        node = stack.pop(0)
        if module.kind(node) == DATASET or _BATCHES.search(_last_name(node)):
            return node
        if isinstance(node, ast.Call):
            name = _last_name(node.func)
            if name in _THROUGH:
                stack += node.args
            elif name in ("take", "shuffle", "prefetch", "skip", "repeat") and isinstance(node.func, ast.Attribute):
                stack.append(node.func.value)
    return None


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def known_rounds(module: Module, loop: ast.AST) -> int | None:
    """Return how often a loop runs, if the code says so."""
    if not isinstance(loop, ast.For):
        return None
    source = loop.iter
    if isinstance(source, ast.Call) and _last_name(source.func) in ("tqdm", "trange", "enumerate") and source.args:
        source = source.args[0] if _last_name(source.func) != "trange" else source
    if isinstance(source, ast.Call) and _last_name(source.func) in ("range", "trange") and source.args:
        numbers = [_length(module, each) or module.constant(each) for each in source.args]
        known = [each for each in numbers if isinstance(each, int)]
        if len(known) == len(numbers) <= 3 and known[2:] != [0]:
            return len(range(*known))
    if isinstance(source, ast.Call) and _last_name(source.func) == "take" and source.args:
        number = module.constant(source.args[0])
        return number if isinstance(number, int) else None
    if isinstance(source, ast.Call) and _last_name(source.func) == "split" and isinstance(source.func, ast.Attribute):
        return _splits(module, source.func.value)
    return _count_elements(module, source)


def _length(module: Module, node: ast.expr) -> int | None:
    """Return what `len(names)` is, where the elements are written out."""
    is_length = isinstance(node, ast.Call) and module.name(node.func) == "builtins.len" and len(node.args) == 1
    return _count_elements(module, node.args[0]) if is_length and isinstance(node, ast.Call) else None


def _count_elements(module: Module, node: ast.expr) -> int | None:
    """Return how many elements a list or tuple has that is written out, here or where its only name is bound."""
    if isinstance(node, ast.Name):
        bindings = module.scopes.find(node)
        is_one = len(bindings) == 1 and bindings[0].index is None and not bindings[0].is_element
        node = bindings[0].value if is_one and bindings[0].value is not None else node
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return None if any(isinstance(each, ast.Starred) for each in node.elts) else len(node.elts)
    return None


def _splits(module: Module, splitter: ast.expr) -> int | None:
    """Return the number of splits of scikit-learn's KFold and the like."""
    bindings = module.scopes.find(splitter) if isinstance(splitter, ast.Name) else []
    made = bindings[-1].value if bindings else splitter
    if not isinstance(made, ast.Call) or "sklearn.model_selection" not in (module.name(made.func) or ""):
        return None
    number = module.constant(module.argument(made, 0, "n_splits"))
    return number if isinstance(number, int) else None


def is_training(module: Module, loop: ast.AST) -> bool:
    """Whether the rounds of a loop are steps of training, apart from those of loops in it."""
    for node in own_nodes(*loop.body):  # type: ignore[attr-defined]
        if not isinstance(node, ast.Call):
            continue
        name = _last_name(node.func)
        if name in _UPDATES or _TRAINS.search(name) or _updates(module, node):
            loops = module.loops_around(node)
            if loops and loops[0] is loop:
                return True
    return False


def _updates(module: Module, call: ast.Call) -> bool:
    """Whether a function of the module that is called updates weights."""
    value = module.value(call.func)
    if value is None or value.kind not in (FUNCTION, TRACED) or not isinstance(value.origin, ast.FunctionDef):
        return False
    nodes = own_nodes(*value.origin.body)
    return any(isinstance(each, ast.Call) and _last_name(each.func) in _UPDATES for each in nodes)


def tapes_around(module: Module, node: ast.AST) -> list[ast.With]:
    """Return the `with` statements of gradient tapes that contain a node within its function."""
    found = []
    for above in module.scopes.ancestors(node):
        if isinstance(above, _FUNCTIONS):
            break
        if isinstance(above, ast.With) and find_tape(module, above) is not None:
            found.append(above)
    return found


def find_tape(module: Module, node: ast.With) -> ast.withitem | None:
    """Return the part of a `with` statement that makes a gradient tape."""
    return next((item for item in node.items if module.kind(item.context_expr) == TAPE), None)


def region_of(module: Module, node: ast.AST) -> Loop | ast.AST | None:
    """Return what runs a node once in each of its rounds: the innermost loop, or else the function."""
    loops = module.loops_around(node)
    return loops[0] if loops else module.function_around(node)
