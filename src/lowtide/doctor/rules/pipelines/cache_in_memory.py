"""`cache()` without a file keeps every element that passes in memory, until the dataset is deleted.

After `repeat()` there is no last element: the cache grows in every epoch until memory runs out. After `repeat(n)` it
holds each element n times. After a generator that never ends it grows as well. Decoded images are large: a JPEG file of
20 KiB becomes 588 KiB at 224 by 224 pixels in float32, and the cache holds one for each file.

Call `cache` before `repeat`, cache the small form of the data (the bytes of the files, before they are decoded), or
write the cache to a file: `cache("/tmp/train.cache")`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.pipelines import datasets, image_bytes, method_of
from lowtide.doctor.code.values import FUNCTION, Value
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.units import format_bytes

# 1,400 of these take 1 GiB; sets of smaller images may well fit.
_LEAST_IMAGE_BYTES = 256 * 256 * 3 * 4
_LIMITS = ("take", "take_while")


def _check(module: Module) -> Iterator[Problem]:
    for call, value in datasets(module, "cache"):
        if (call.args or call.keywords) and module.constant(module.argument(call, 0, "filename")) != "":
            continue
        repeat = _find_repeat(value)
        if repeat is not None:
            yield Problem(call, _describe_repeat(module, repeat), "call cache before repeat")
        elif any(method_of(stage) in _LIMITS for stage in value.stages):
            continue
        elif _is_endless(module, value):
            yield Problem(
                call,
                "cache() keeps every element of a generator that never ends: memory grows until it runs out",
                "remove cache(), or limit the generator with take(n) before it",
            )
        elif (size := image_bytes(module, value)) is not None and size >= _LEAST_IMAGE_BYTES:
            yield Problem(
                call,
                f"cache() keeps every decoded image in memory: {format_bytes(size)} each as float32,"
                f" {format_bytes(1000 * size)} for 1,000 images",
                'write the cache to a file, cache("/tmp/images.cache"), or cache the files\' bytes before decoding',
            )


def _find_repeat(value: Value) -> ast.Call | None:
    """Return the last `repeat` after which the number of elements is not limited."""
    found = None
    for stage in value.stages:
        method = method_of(stage)
        found = stage if method == "repeat" else None if method in _LIMITS else found
    return found


def _describe_repeat(module: Module, repeat: ast.Call) -> str:
    count = module.argument(repeat, 0, "count")
    times = module.constant(count)
    if count is None or (times is None and isinstance(count, ast.Constant)) or times == -1:
        return "cache() after repeat() never ends: it keeps the elements of every epoch, until memory runs out"
    number = f"{times:,}" if isinstance(times, int) else module.short_text(count)
    return f"cache() after repeat({number}) keeps each element {number} times"


def _is_endless(module: Module, value: Value) -> bool:
    """Whether the source is a generator with a loop that nothing ends."""
    source = value.stages[0]
    if method_of(source) != "from_generator" or not source.args:
        return False
    generator = module.value(source.args[0])
    if generator is None or generator.kind != FUNCTION:
        return False
    return any(
        isinstance(each, ast.While) and bool(module.constant(each.test)) and not _is_left(each)
        for each in ast.walk(generator.origin)
    )


def _is_left(loop: ast.While) -> bool:
    return any(isinstance(each, (ast.Break, ast.Return, ast.Raise)) for each in ast.walk(loop))


RULE = Rule("LT201", "large cache in memory", _check, __doc__)
