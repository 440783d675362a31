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
# After these an element is no batch any more.
_UNBATCHES = ("unbatch", "flat_map", "interleave", "rebatch")


def _check(module: Module) -> Iterator[Problem]:
    for call, owner in module.method_calls("shuffle"):
        value = module.value(owner)
        if value is None or value.kind != DATASET:
            continue
        batch = None
        for stage in value.stages:
            method = stage.func.attr if isinstance(stage.func, ast.Attribute) else ""
            batch = stage if method in _BATCHES else None if method in _UNBATCHES else batch
        if batch is None:
            continue
        size = module.constant(module.argument(batch, 0, "batch_size"))
        times = f"{size:,} times the memory of" if isinstance(size, int) and size > 1 else "a whole batch for each of"
        yield Problem(
            call,
            f"shuffle after batch keeps batches in its buffer: {times} its elements; and the samples of a batch stay"
            " together",
            "call shuffle before batch",
        )


RULE = Rule("LT203", "shuffle after batch", _check, __doc__)
