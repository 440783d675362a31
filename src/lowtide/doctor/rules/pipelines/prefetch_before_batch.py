"""`prefetch` before `batch` prepares single samples ahead, and the batches are not prepared ahead.

`prefetch` keeps finished elements of the stage before it. Before `batch` these are samples: the buffer has to be as
large as a batch to be of use, and the batch itself is put together when the step asks for it. Call `prefetch` last; one
or two batches are enough, and `tf.data.AUTOTUNE` chooses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.pipelines import BATCHES, UNBATCHES, autotune, batch_stage, datasets, method_of
from lowtide.doctor.code.values import Value
from lowtide.doctor.problem import Edit, Problem
from lowtide.doctor.rule import Rule

# A larger buffer of samples would be a buffer of as many batches.
_MOST_BATCHES = 2


def _check(module: Module) -> Iterator[Problem]:
    if module.is_test:
        return
    later = [value.stages for _, value in datasets(module, "prefetch")]
    for batch, value in datasets(module, *BATCHES):
        if batch_stage(value) is not None or any(batch in stages for stages in later):
            continue
        prefetch = _last_prefetch(value)
        if prefetch is not None and module.constant(module.argument(batch, 0, "batch_size")) != 1:
            yield Problem(
                prefetch,
                "prefetch before batch keeps samples ready, and batches only if tf.data adds a prefetch itself",
                f"call prefetch after batch: .{method_of(batch)}(...).prefetch(tf.data.AUTOTUNE)",
                _swap(module, prefetch, batch),
            )


def _last_prefetch(value: Value) -> ast.Call | None:
    """Return the last prefetch of samples, unless a later stage makes other elements of them."""
    for stage in reversed(value.stages):
        if method_of(stage) in UNBATCHES:
            return None
        if method_of(stage) == "prefetch":
            return stage
    return None


def _swap(module: Module, prefetch: ast.Call, batch: ast.Call) -> tuple[Edit, ...]:
    """Return the edit that moves `.prefetch(...)` behind `.batch(...)`, if one follows the other."""
    assert isinstance(batch.func, ast.Attribute)
    if batch.func.value is not prefetch or not isinstance(prefetch.func, ast.Attribute):
        return ()
    begin = module.span(prefetch.func.value)[1]
    middle, end = module.span(prefetch)[1], module.span(batch)[1]
    size = module.argument(prefetch, 0, "buffer_size")
    number = module.constant(size)
    first = module.source.text[begin:middle]
    if size is None or "#" in module.source.text[begin:end]:
        return ()
    if isinstance(number, int) and number > _MOST_BATCHES:
        name = autotune(module)
        if name is None:
            return ()
        place = module.span(size)
        first = first[: place[0] - begin] + name + first[place[1] - begin :]
    return (Edit((begin, end), module.source.text[middle:end] + first),)


RULE = Rule("LT205", "prefetch before batch", _check, __doc__)
