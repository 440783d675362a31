"""`shuffle` after `batch` keeps whole batches in its buffer, and shuffles only the order of the batches.

A shuffle buffer of 1,000 elements holds 1,000 samples before `batch`, and 1,000 batches after it: 32 times the memory
at a batch size of 32. The samples within a batch stay together in every epoch, so the model also learns from less
random batches. Shuffle first, then batch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.pipelines import datasets, is_cached
from lowtide.doctor.problem import Edit, Problem
from lowtide.doctor.rule import Rule

_BATCHES = ("batch", "padded_batch", "ragged_batch")
# The fewest samples that shuffle well.
_LEAST_PLACES = 1000
# After these an element is no batch any more.
_UNBATCHES = ("unbatch", "flat_map", "interleave", "rebatch")


def _check(module: Module) -> Iterator[Problem]:
    if module.is_test:
        return
    # Where batch is called again after shuffle, the first batches are the samples: sequences, for example.
    samples = {stage for _, value in datasets(module, *_BATCHES) for stage in value.stages}
    for call, value in datasets(module, "shuffle"):
        batch = None
        for stage in value.stages:
            method = stage.func.attr if isinstance(stage.func, ast.Attribute) else ""
            batch = stage if method in _BATCHES else None if method in _UNBATCHES else batch
        if batch is None or call in samples:
            continue
        size = module.constant(module.argument(batch, 0, "batch_size"))
        if size != 1:
            message = _describe(size, is_cached(value))
            yield Problem(call, message, "call shuffle before batch", _swap(module, batch, call))


def _describe(size: object, cached: bool) -> str:
    if cached:
        # The buffer holds the tensors of the cache, which take no further memory.
        return "shuffle after batch shuffles only the order of the batches: the samples of a batch stay together"
    times = f"{size:,} times the memory of" if isinstance(size, int) else "a whole batch for each of"
    return (
        f"shuffle after batch keeps batches in its buffer: {times} its elements; and the samples of a batch stay"
        " together"
    )


def _swap(module: Module, batch: ast.Call, shuffle: ast.Call) -> tuple[Edit, ...]:
    """Return the edit that moves `.batch(...)` behind `.shuffle(...)`, where an epoch has the same samples afterwards.

    A small buffer may have been chosen for batches; as one of samples it would hardly shuffle.
    """
    assert isinstance(shuffle.func, ast.Attribute)
    places = module.constant(module.argument(shuffle, 0, "buffer_size"))
    is_plain = len(batch.args) + len(batch.keywords) == 1 and len(shuffle.args) + len(shuffle.keywords) == 1
    if shuffle.func.value is not batch or not is_plain or not isinstance(places, int) or places < _LEAST_PLACES:
        return ()
    assert isinstance(batch.func, ast.Attribute)
    begin, middle, end = (module.span(each)[1] for each in (batch.func.value, batch, shuffle))
    text = module.source.text
    return () if "#" in text[begin:end] else (Edit((begin, end), text[middle:end] + text[begin:middle]),)


RULE = Rule("LT203", "shuffle after batch", _check, __doc__)
