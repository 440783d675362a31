"""A `tf.function` is traced again for each new value of a Python number that it is given.

A tensor is data: the function is traced once for its type and shape. A Python number is part of the function: for `f(x,
1)` and `f(x, 2)` TensorFlow makes two graphs, and it keeps both. In TensorFlow 2.21 each one costs about 120 KiB for a
small function, more for a large one, and the time to trace it. `reduce_retracing=True` does not help for numbers.

Pass a tensor, `tf.constant(step)`, or let the function read a `tf.Variable` that the loop assigns to. NumPy numbers are
tensors for this purpose. An `input_signature` turns numbers into tensors, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.tracing import changing_arguments, option, traced_calls
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.units import format_bytes, format_count

_TRACE_BYTES = 120 << 10


def _check(module: Module) -> Iterator[Problem]:
    for call, maker in traced_calls(module):
        if option(module, maker, "input_signature"):
            continue
        for argument, count in changing_arguments(module, call, shapes=False):
            text, function = module.short_text(argument), module.short_text(call.func)
            times = format_count(count, "trace") if count is not None else "a trace for each value"
            total = f", {format_bytes(count * _TRACE_BYTES)}" if count is not None else ""
            yield Problem(
                call,
                f"{function} is traced again for each value of the Python number {text}: {times} of 120 KiB or"
                f" more{total}",
                f"pass a tensor, tf.constant({text}), or assign the value to a tf.Variable that the function reads",
            )
            break


RULE = Rule("LT301", "Python number for a traced function", _check, __doc__)
