"""`list(dataset)` computes every element of a dataset and keeps all of them.

A pipeline exists so that only a few batches are in memory. A list of its elements holds the whole data set, decoded, as
tensors, and `np.array(list(dataset))` holds it twice. The same is true of a comprehension that keeps the elements, and
of `as_numpy_iterator()` collected in a list.

Iterate over the dataset, reduce it with `dataset.reduce`, or write `dataset.take(n)` where only some elements are
needed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.pipelines import method_of, reads_files
from lowtide.doctor.code.sizes import find_size
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_COLLECTORS = ("builtins.list", "builtins.tuple", "builtins.sorted")
_NUMPY = ("numpy.array", "numpy.asarray", "numpy.stack", "numpy.concatenate", "numpy.vstack")
# Stages after which few elements may be left.
_LIMITS = ("take", "take_while", "filter", "shard", "reduce", "window")
_LEAST_BYTES = 16 << 20


def _check(module: Module) -> Iterator[Problem]:
    for call in module.calls(*_COLLECTORS):
        if len(call.args) == 1 and _is_large(module, call.args[0]):
            yield _problem(module, call, call.args[0])
    for node in module.nodes(ast.ListComp):
        clause = node.generators[0]
        one_clause = len(node.generators) == 1 and not clause.ifs
        if one_clause and _keeps(node.elt, clause.target) and _is_large(module, clause.iter):
            yield _problem(module, node, clause.iter)


def _problem(module: Module, node: ast.expr, dataset: ast.expr) -> Problem:
    above = module.scopes.parent(node)
    is_copied = isinstance(above, ast.Call) and module.name(above.func) in _NUMPY
    copy = ", and NumPy copies the list into an array of the same bytes" if is_copied else ""
    return Problem(
        node,
        f"{module.short_text(node)} keeps every element of {module.short_text(dataset)}, which reads its data from"
        f" files or a large array, in memory at once{copy}",
        "iterate over the dataset, reduce it with dataset.reduce, or limit it: dataset.take(n)",
    )


def _keeps(element: ast.expr, target: ast.expr) -> bool:
    """Whether the element of a comprehension is what the dataset yields, or its first component."""
    while isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute) and element.func.attr == "numpy":
        element = element.func.value
    if isinstance(element, (ast.Tuple, ast.List)):
        return any(_keeps(each, target) for each in element.elts)
    first = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) and target.elts else target
    return isinstance(element, ast.Name) and isinstance(first, ast.Name) and element.id == first.id


def _is_large(module: Module, node: ast.expr) -> bool:
    value = module.value(node)
    if value is None or value.kind != "dataset" or isinstance(node, ast.Subscript):
        return False
    methods = [method_of(stage) for stage in value.stages]
    if any(each in _LIMITS for each in methods) or _selects_part(value.stages) or not _is_one(module, value.stages[0]):
        return False
    if reads_files(module, value):
        return True
    source = value.stages[0]
    size = find_size(module, source.args[0]) if source.args and methods[0].startswith("from_tensor") else None
    return size is not None and size.is_at_least(_LEAST_BYTES)


def _is_one(module: Module, source: ast.Call) -> bool:
    """Whether what a source returns is one whole data set: tfds.load may return a tuple, a dict or a few elements."""
    if module.name(source.func) != "tensorflow_datasets.load":
        return True
    split = module.constant(module.argument(source, 1, "split"))
    return isinstance(split, str) and not re.search(r":\d+\]", split)


def _selects_part(stages: tuple[ast.Call, ...]) -> bool:
    """Whether a stage keeps a part of each element: `map(lambda x, y: y)`, `map(lambda row: row["user"])`."""
    for stage in stages:
        function = stage.args[0] if method_of(stage) == "map" and stage.args else None
        if not isinstance(function, ast.Lambda):
            continue
        names = [each.arg for each in function.args.args]
        body = function.body
        if isinstance(body, (ast.Subscript, ast.Attribute)):
            return True
        if isinstance(body, ast.Name) and body.id in names[1:]:
            return True
    return False


RULE = Rule("LT104", "all elements of a dataset in a list", _check, __doc__)
