"""A `tf.function` is traced again for each new shape of its arguments.

A slice that grows, such as `x[:i]`, has another shape in each pass of a loop, and TensorFlow makes and keeps a graph
for each one: in TensorFlow 2.21 about 92 KiB for a small function, more for a large one, and the time to trace it. A
smaller last batch is one more shape and does no harm.

With `tf.function(reduce_retracing=True)` the second trace is for all lengths. An `input_signature` with None for the
length needs one trace. Or pad all inputs to one length.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.tracing import changing_arguments, option, traced_calls
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.units import format_count

_RELAXED = ("input_signature", "reduce_retracing", "experimental_relax_shapes", "jit_compile")


def _check(module: Module) -> Iterator[Problem]:
    for call, maker in traced_calls(module):
        if any(option(module, maker, each) for each in _RELAXED):
            continue
        for argument, count in changing_arguments(module, call, shapes=True):
            times = format_count(count, "trace") if count is not None else "a trace for each shape,"
            yield Problem(
                call,
                f"{module.short_text(call.func)} is traced again for each shape of {module.short_text(argument)}:"
                f" {times} of 92 KiB or more",
                "write @tf.function(reduce_retracing=True), which makes the second trace for all lengths, or pad to one"
                " length",
            )
            break


RULE = Rule("LT302", "changing shapes for a traced function", _check, __doc__)
