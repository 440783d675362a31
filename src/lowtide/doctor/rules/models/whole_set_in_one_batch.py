"""Calling a model on a whole data set makes it one batch.

`model(x)` computes all rows at once: the outputs of its layers, for all rows, are in memory together. For the 10,000
test images of MNIST a first convolution with 32 channels has 10,000 x 28 x 28 x 32 numbers, which are 1 GB; a batch of
64 needs 6 MB. `model.predict(x, batch_size=64)` goes through the rows in batches and returns the same.

Reported are images of keras.datasets as a whole in a program with convolutions, and arrays and tensors that the code
states to have at least 10,000 rows and a million numbers. Batches, slices and small arrays are what `model(x)` is for.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.rows import find_shape
from lowtide.doctor.code.values import ARRAY, MODEL, TENSOR
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_MANY_ROWS = 10_000
_MANY_NUMBERS = 1_000_000
# Images of which a model's first layers make many times as many numbers.
_IMAGES = ("mnist", "fashion_mnist", "cifar10", "cifar100")
_AT_ONCE = ("train_on_batch", "test_on_batch", "predict_on_batch")


def _check(module: Module) -> Iterator[Problem]:
    for call in module.nodes(ast.Call):
        method = call.func
        is_on_batch = isinstance(method, ast.Attribute) and method.attr in _AT_ONCE
        owner = method.value if is_on_batch and isinstance(method, ast.Attribute) else method
        if not call.args or not isinstance(owner, (ast.Name, ast.Attribute)) or module.kind(owner) != MODEL:
            continue
        rows = _rows(module, call.args[0])
        if rows is None or module.is_traced(call) or module.constant(module.argument(call, 1, "training")) is True:
            continue
        name = module.short_text(owner)
        yield Problem(
            call,
            f"{name} is called on all {rows:,} rows of {module.short_text(call.args[0])} as one batch: the outputs of"
            f" its layers take {rows // 64:,} times the memory of a batch of 64",
            f"call {name}.predict({module.short_text(call.args[0])}, batch_size=64), or call {name} on the batches of a"
            " tf.data.Dataset",
        )


def _rows(module: Module, given: ast.expr) -> int | None:
    """Return the rows of a large array; None if it is small, a part of one, or unknown."""
    value = module.value(given)
    if value is None or value.is_part or value.kind not in (ARRAY, TENSOR) or isinstance(given, ast.Subscript):
        return None
    made = value.origin
    if isinstance(made, ast.Call):
        parts = (module.name(made.func) or "").split(".")
        if parts[:2] == ["keras", "datasets"] and len(parts) > 2 and parts[2] in _IMAGES and _is_images(given):
            # Dense layers of images are smaller than the images.
            return _MANY_ROWS if _has_convolutions(module) else None
    shape = find_shape(module, made)
    if shape is None or shape[0] < _MANY_ROWS or math.prod(shape) < _MANY_NUMBERS:
        return None
    return shape[0]


def _has_convolutions(module: Module) -> bool:
    return any("Conv" in (module.name(each.func) or "") for each in module.calls("keras.layers."))


def _is_images(given: ast.expr) -> bool:
    """Whether a name is that of the images, and not of their labels."""
    return isinstance(given, ast.Name) and given.id.lower().startswith(
        ("x", "test_im", "train_im", "test_x", "train_x")
    )


RULE = Rule("LT507", "a data set as one batch", _check, __doc__)
