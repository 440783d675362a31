"""An op that is made in a loop stays in the graph of `tf.compat.v1`: the graph grows in each pass.

`sess.run(tf.add(a, b))` adds ops to the graph and then runs them. In a loop the graph grows by about 68 KiB in each
pass in TensorFlow 2.21, each `run` of a graph that has changed is slower, and past 2 GB the graph cannot be used. The
same is true of `tf.assign`, of arithmetic on tensors, and of `tf.global_variables_initializer()` in a loop.

Make the ops once, before the loop, with placeholders for what changes, and run them in the loop.
`tf.compat.v1.get_default_graph().finalize()` before the loop turns the mistake into an error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Loop, Module
from lowtide.doctor.code.tracing import FEW, count_of
from lowtide.doctor.code.values import SESSION, TENSOR
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.units import format_bytes, format_count

_OP_BYTES = 68 << 10
_MAKERS = (
    "tensorflow.global_variables_initializer", "tensorflow.local_variables_initializer",
    "tensorflow.initialize_all_variables", "tensorflow.tables_initializer", "tensorflow.assign",
)  # fmt: skip
_NEW_GRAPHS = ("tensorflow.Graph", "tensorflow.reset_default_graph")


def _check(module: Module) -> Iterator[Problem]:
    for call, owner in module.method_calls("run"):
        if module.kind(owner) != SESSION or not call.args:
            continue
        loop = _find_loop(module, call)
        made = None if loop is None else _find_made(module, call.args[0], loop)
        if loop is None or made is None:
            continue
        count = count_of(module, loop)
        total = f", {format_bytes(count * _OP_BYTES)} for {format_count(count, 'pass')}" if count is not None else ""
        line = module.source.find_place(loop.lineno)[1]
        yield Problem(
            made,
            f"{module.short_text(made)} adds ops to the graph in each pass of the loop at line {line}: 68 KiB or more"
            f" in each{total}",
            "make the op before the loop, with a tf.compat.v1.placeholder for what changes, and run it in the loop",
        )


def _find_loop(module: Module, call: ast.Call) -> Loop | None:
    """Return the innermost loop of many passes around a call, if its passes share one graph."""
    for loop in module.loops_around(call):
        calls = (each for each in ast.walk(loop) if isinstance(each, ast.Call))
        if any((module.name(each.func) or "") in _NEW_GRAPHS for each in calls):
            return None
        count = count_of(module, loop)
        if count is None or count > FEW:
            return loop
    return None


def _find_made(module: Module, fetched: ast.expr, loop: Loop) -> ast.expr | None:
    """Return the expression that makes an op within a loop, of what a session is told to run."""
    if isinstance(fetched, (ast.List, ast.Tuple)):
        return next((each for part in fetched.elts if (each := _find_made(module, part, loop)) is not None), None)
    if isinstance(fetched, ast.Name):
        bindings = module.scopes.find(fetched)
        value = bindings[0].value if len(bindings) == 1 and not bindings[0].is_element else None
        inside = value is not None and any(each is loop for each in module.scopes.ancestors(value))
        return _find_made(module, value, loop) if value is not None and inside else None
    if isinstance(fetched, ast.Call):
        name = module.name(fetched.func) or ""
        is_op = name in _MAKERS or (name.startswith("tensorflow.") and module.kind(fetched) == TENSOR)
        method = fetched.func
        if isinstance(method, ast.Attribute) and method.attr in ("assign", "assign_add", "assign_sub"):
            is_op = is_op or module.kind(method.value) in ("variable", TENSOR)
        return fetched if is_op else None
    return fetched if isinstance(fetched, ast.BinOp) and module.kind(fetched) == TENSOR else None


RULE = Rule("LT306", "ops added to a graph in a loop", _check, __doc__)
