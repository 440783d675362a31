"""`shuffle` after `batch` keeps whole batches in its buffer, and shuffles only the order of the batches.

A shuffle buffer of 1,000 elements holds 1,000 samples before `batch`, and 1,000 batches after it: 32 times the memory
at a batch size of 32. The samples within a batch stay together in every epoch, so the model also learns from less
random batches. Shuffle first, then batch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.module import Module
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.doctor.values import DATASET

_BATCHES = ("batch", "padded_batch", "ragged_batch")
_MAPS = ("map", "filter")
# After these an element is no batch any more.
_UNBATCHES = ("unbatch", "flat_map", "interleave", "rebatch")


def _check(module: Module) -> Iterator[Problem]:
    for call, owner in module.method_calls("shuffle"):
        value = module.value(owner)
        if value is None or value.kind != DATASET or _is_batched_later(module, call):
            continue
        batch = None
        is_cached = False
        for stage in value.stages:
            method = stage.func.attr if isinstance(stage.func, ast.Attribute) else ""
            batch = stage if method in _BATCHES else None if method in _UNBATCHES else batch
            is_cached = (method == "cache" and not stage.args) or (is_cached and method not in _MAPS)
        size = None if batch is None else module.constant(module.argument(batch, 0, "batch_size"))
        if batch is not None and size != 1:
            yield Problem(call, _describe(size, is_cached), "call shuffle before batch")


def _describe(size: object, is_cached: bool) -> str:
    if is_cached:
        # The buffer holds the tensors of the cache, which take no further memory.
        return "shuffle after batch shuffles only the order of the batches: the samples of a batch stay together"
    times = f"{size:,} times the memory of" if isinstance(size, int) else "a whole batch for each of"
    return (
        f"shuffle after batch keeps batches in its buffer: {times} its elements; and the samples of a batch stay"
        " together"
    )


def _is_batched_later(module: Module, shuffle: ast.Call) -> bool:
    """Whether a later stage makes the batches: then the first ones are samples, such as sequences of characters."""
    for call, owner in module.method_calls(*_BATCHES):
        value = module.value(owner)
        if value is not None and value.kind == DATASET and shuffle in value.stages and call is not shuffle:
            return True
    return False


RULE = Rule("LT203", "shuffle after batch", _check, __doc__)
