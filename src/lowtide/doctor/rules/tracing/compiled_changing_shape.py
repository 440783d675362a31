"""With `jit_compile=True`, XLA compiles a function again for each new shape.

A compiled program has fixed shapes. Inputs of another length are another compilation, which takes seconds for a model,
and the program stays in memory: in TensorFlow 2.21 about 293 KiB for a small function. The function's tracing count
does not show it, and `reduce_retracing=True` does not change it. Batches padded to the longest sequence in each of them
have as many shapes as there are longest sequences.

Pad to one length, `padded_batch(n, padded_shapes=[512])`, or to a few with `bucket_by_sequence_length`; and call
`batch` with `drop_remainder=True`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.pipelines import method_of
from lowtide.doctor.code.tracing import arguments_of, changing_arguments, option, traced_calls
from lowtide.doctor.code.values import DATASET, MODEL
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_ADVICE = "pad to one length, or to a few: padded_batch(n, padded_shapes=[512]), or bucket_by_sequence_length"


def _check(module: Module) -> Iterator[Problem]:
    for call, maker in traced_calls(module):
        if option(module, maker, "jit_compile"):
            yield from _of_call(module, call)
    compiled = {
        owner.id
        for call, owner in module.method_calls("compile")
        if isinstance(owner, ast.Name)
        and module.kind(owner) == MODEL
        and module.constant(module.argument(call, None, "jit_compile")) is True
    }
    for call, owner in module.method_calls("fit"):
        data = module.argument(call, 0, "x")
        if isinstance(owner, ast.Name) and owner.id in compiled and data is not None and _is_padded(module, data):
            yield _of_padded(call, "the model's step")


def _of_call(module: Module, call: ast.Call) -> Iterator[Problem]:
    function = module.short_text(call.func)
    for argument, _ in changing_arguments(module, call, shapes=True):
        yield Problem(
            call,
            f"XLA compiles {function} again for each shape of {module.short_text(argument)}, and keeps each program:"
            " 293 KiB or more",
            _ADVICE,
        )
        return
    for loop in module.loops_around(call):
        if isinstance(loop, ast.For) and _is_padded(module, loop.iter):
            names = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
            if any(isinstance(each, ast.Name) and each.id in names for each in arguments_of(call)):
                yield _of_padded(call, function)
                return


def _of_padded(call: ast.Call, function: str) -> Problem:
    message = f"XLA compiles {function} again for each length to which padded_batch pads, and keeps each program"
    return Problem(call, f"{message}: 293 KiB or more", _ADVICE)


def _is_padded(module: Module, node: ast.expr) -> bool:
    """Whether a dataset's batches are padded to the longest element of each batch."""
    value = module.value(node)
    if value is None or value.kind != DATASET:
        return False
    for stage in value.stages:
        if method_of(stage) == "padded_batch":
            shapes = module.argument(stage, 1, "padded_shapes")
            return shapes is None or any(
                isinstance(each, ast.Constant) and each.value is None for each in ast.walk(shapes)
            )
    return False


RULE = Rule("LT304", "changing shapes for a compiled function", _check, __doc__)
