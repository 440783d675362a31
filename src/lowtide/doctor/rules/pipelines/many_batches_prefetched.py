"""`prefetch(n)` after `batch` keeps n finished batches in memory, not n samples.

`batch(64).prefetch(64)` keeps 64 batches, 4,096 samples, beside the one that the step uses. One or two finished batches
are enough to keep a step from waiting: more help only as long as the pipeline is faster than the step, and then the
buffer is full all the time. `prefetch(tf.data.AUTOTUNE)` begins with one batch and adds more only when a step had to
wait.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.pipelines import autotune, batch_stage, datasets
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_LEAST_BATCHES = 32


def _check(module: Module) -> Iterator[Problem]:
    for call, value in datasets(module, "prefetch"):
        batch = batch_stage(value)
        buffer = module.argument(call, 0, "buffer_size")
        if batch is None or buffer is None or module.is_test:
            continue
        count = module.constant(buffer)
        size = module.argument(batch, 0, "batch_size")
        samples = module.constant(size)
        if isinstance(count, int) and count >= _LEAST_BATCHES:
            total = f", {count * samples:,} samples," if isinstance(samples, int) and samples > 1 else ""
            message = f"prefetch({count}) after batch keeps {count:,} batches{total} in memory"
        elif count is None and size is not None and _is_same_name(buffer, size):
            text = module.short_text(buffer)
            message = f"prefetch({text}) after batch({text}) keeps as many batches in memory as a batch has samples"
        else:
            continue
        name = autotune(module)
        yield Problem(
            call,
            message,
            "write prefetch(tf.data.AUTOTUNE), which begins with one batch, or prefetch(2)",
            (module.replace(buffer, name),) if name is not None else (),
        )


def _is_same_name(one: ast.expr, other: ast.expr) -> bool:
    return isinstance(one, (ast.Name, ast.Attribute)) and ast.dump(one) == ast.dump(other)


RULE = Rule("LT206", "many batches prefetched", _check, __doc__)
