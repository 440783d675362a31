"""`shuffle` keeps as many elements as its buffer has places: decoded images as they are, not the names of their files.

A buffer with a place for each element holds the whole data set in memory, in the form that it has at that stage. 10,000
images of 224 by 224 pixels in float32 take 5.6 GiB; the names of their files take one MiB.

Shuffle the names of the files, with a buffer for all of them, before `map` reads them; or give the buffer of images
hundreds of places instead of thousands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.pipelines import batch_stage, datasets, decodes, image_bytes, is_cached, method_of
from lowtide.doctor.code.sizes import ArraySize, describe, find_size
from lowtide.doctor.code.values import Value
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.units import format_bytes

_LEAST_BYTES = 256 << 20
_LEAST_IMAGE_BYTES = 128 * 128 * 3 * 4
_COUNTS = ("builtins.len", "tensorflow.data.experimental.cardinality")
# Stages that keep the elements of an array as they are.
_SAME_ELEMENTS = ("shuffle", "cache", "prefetch", "repeat", "take", "skip", "shard")


def _check(module: Module) -> Iterator[Problem]:
    for call, value in datasets(module, "shuffle"):
        buffer = module.argument(call, 0, "buffer_size")
        if buffer is None or batch_stage(value) is not None or not value.stages or is_cached(value):
            continue
        places = module.constant(buffer)
        places = places if isinstance(places, int) else None
        message = _of_images(module, value, buffer, places) or _of_array(module, value, buffer, places)
        if message is not None:
            yield Problem(call, message, _advice(value))


def _of_images(module: Module, value: Value, buffer: ast.expr, places: int | None) -> str | None:
    size = image_bytes(module, value)
    has_images = size is not None and size >= _LEAST_IMAGE_BYTES
    text = module.short_text(buffer)
    if places is not None and size is not None and places * size >= 2 * _LEAST_BYTES:
        total = format_bytes(places * size)
        return f"the buffer of shuffle({text}) holds decoded images: {total} for {places:,} of {format_bytes(size)}"
    if places is None and has_images and _counts_elements(module, buffer):
        each = format_bytes(size or 0)
        return f"the buffer of shuffle({text}) holds the whole data set as decoded images of {each} each"
    if places is not None and size is None and places >= 10_000 and _decodes_images(module, value):
        return f"the buffer of shuffle({text}) holds up to {places:,} decoded images"
    return None


def _decodes_images(module: Module, value: Value) -> bool:
    return any(decodes(module, stage) for stage in value.stages)


def _counts_elements(module: Module, node: ast.expr) -> bool:
    """Whether an expression is the number of elements of something: `len(files)`, `dataset.cardinality()`."""
    if isinstance(node, ast.Name):
        bindings = module.scopes.find(node)
        value = bindings[-1].value if bindings else None
        return isinstance(value, ast.Call) and _counts_elements(module, value)
    if not isinstance(node, ast.Call):
        return False
    return module.name(node.func) in _COUNTS or (
        isinstance(node.func, ast.Attribute) and node.func.attr in ("cardinality", "numpy")
    )


def _of_array(module: Module, value: Value, buffer: ast.expr, places: int | None) -> str | None:
    source, *rest = value.stages
    if method_of(source) != "from_tensor_slices" or any(method_of(each) not in _SAME_ELEMENTS for each in rest):
        return None
    size = _largest(module, source.args[0] if source.args else None)
    if size is None or size.bytes is None or not size.shape:
        return None
    rows = size.shape[0]
    used = rows if places is None and _counts_elements(module, buffer) else min(places or 0, rows)
    count = size.bytes // max(rows, 1) * used
    if count < _LEAST_BYTES:
        return None
    part = "all" if used == rows else f"{used:,}"
    return (
        f"the buffer of shuffle({module.short_text(buffer)}) holds a copy of {part} rows: {format_bytes(count)} more"
        f" beside {describe(module, size)}"
    )


def _largest(module: Module, node: ast.expr | None) -> ArraySize | None:
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    found = [size for each in parts if (size := find_size(module, each)) is not None]
    return max(found, key=lambda each: each.bytes or 0, default=None)


def _advice(value: Value) -> str:
    if method_of(value.stages[0]) == "from_tensor_slices" and len(value.stages) == 1:
        return "use lt.feed.arrays(x, y, batch_size=..., budget=..., shuffle=True), which shuffles the row numbers"
    return "shuffle the names of the files before map reads them, or use a buffer of some hundred images"


RULE = Rule("LT202", "large shuffle buffer", _check, __doc__)
