"""`gradient_accumulation_steps` is not the same as a larger batch in two cases.

An optimizer with `gradient_accumulation_steps=4` updates the weights with the mean of the gradients of four batches.
That is the gradient of a batch four times as large if

- no layer computes something over the batch: `BatchNormalization` normalizes by the mean and variance of each small
  batch, and its averages are updated four times for each update of the weights;
- all batches have the same size: the last one of an epoch is often smaller and gets the same weight as the others, and
  batches that are left over at the end of an epoch are added to the first ones of the next.

`lt.fit_in(model, budget=...)` splits steps where the result stays the same, and says where it does not. Group or layer
normalization does not depend on the batch; `batch(..., drop_remainder=True)` drops the smaller batch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.rows import find_rows
from lowtide.doctor.code.values import ARRAY, DATASET
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

# Models of keras.applications that have BatchNormalization.
_NORMALIZED = ("ResNet", "DenseNet", "MobileNet", "EfficientNet", "Inception", "Xception", "NASNet", "RegNet")


def _check(module: Module) -> Iterator[Problem]:
    for call in module.calls("keras.optimizers."):
        steps = module.constant(module.argument(call, None, "gradient_accumulation_steps"))
        if not isinstance(steps, int) or steps < 2:
            continue
        if (layer := _find_normalization(module)) is not None:
            yield Problem(
                call,
                f"gradient_accumulation_steps={steps} with BatchNormalization ({module.line(layer)}) is not a"
                f" batch {steps} times as large: each small batch"
                " is normalized by itself, and the moving averages are updated"
                f" {steps} times for each update of the weights",
                "use keras.layers.GroupNormalization or LayerNormalization, or lt.fit_in(model, budget=...), which says"
                " what changes",
            )
        elif (ragged := _find_ragged(module, steps)) is not None:
            rows, size = ragged
            left = rows % size
            batches = -(-rows // size)
            wrong = (
                f"the last batch of each epoch has {left} samples instead of {size} and gets the same weight"
                if left
                else f"{batches % steps} of {batches} batches are left over at the end of each epoch and are added to"
                " the next one"
            )
            yield Problem(
                call,
                f"gradient_accumulation_steps={steps} weights all batches equally: {wrong}",
                f"choose a batch size so that {rows:,} samples are a multiple of {steps} equal batches, or pass a"
                " dataset made with batch(..., drop_remainder=True) and take(...)",
            )


def _find_normalization(module: Module) -> ast.Call | None:
    for call in module.calls(
        "keras.layers.BatchNormalization", "keras.layers.SyncBatchNormalization", "keras.applications."
    ):
        name = (module.name(call.func) or "").rpartition(".")[2]
        if name.startswith(_NORMALIZED) or "BatchNormalization" in name:
            return call
    return None


def _find_ragged(module: Module, steps: int) -> tuple[int, int] | None:
    """Return the numbers of samples and of those in a batch, if an epoch is surely no multiple of the accumulation."""
    for call, _ in module.method_calls("fit"):
        data = module.argument(call, 0, "x")
        value = module.value(data)
        if value is None:
            continue
        rows: object = None
        size: object = None
        if value.kind == ARRAY and not value.is_part:
            rows = find_rows(module, value.origin)
            given = module.argument(call, 2, "batch_size")
            size = 32 if given is None else module.constant(given)
        elif value.kind == DATASET and len(value.stages) >= 2:
            rows, size = _of_dataset(module, value.stages)
        if isinstance(rows, int) and isinstance(size, int) and size > 0 and (rows % size or (rows // size) % steps):
            return rows, size
    return None


def _of_dataset(module: Module, stages: tuple[ast.Call, ...]) -> tuple[object, object]:
    rows = find_rows(module, stages[0])
    if rows is None and stages[0].args and getattr(stages[0].func, "attr", "") == "from_tensor_slices":
        given = stages[0].args[0]
        given = given.elts[0] if isinstance(given, ast.Tuple) and given.elts else given
        value = module.value(given)
        rows = None if value is None or value.is_part else find_rows(module, value.origin)
    size: object = None
    for stage in stages[1:]:
        method = stage.func.attr if isinstance(stage.func, ast.Attribute) else ""
        if method == "batch" and module.argument(stage, None, "drop_remainder") is None and size is None:
            size = module.constant(module.argument(stage, 0, "batch_size"))
        elif method not in ("shuffle", "prefetch", "cache", "map", "with_options"):
            return None, None
    return rows, size


RULE = Rule("LT407", "accumulation that is no larger batch", _check, __doc__)
