"""A pipeline that reads files or decodes images, and on which a model is trained, should end with `prefetch`.

With `prefetch` the pipeline prepares the next batch while the model computes the current one; without it the step waits
for each batch. Autotuning hides the omission: TensorFlow 2.21 adds a prefetch of its own at the end of a pipeline. It
does not where autotuning is switched off in the options of the dataset, and older versions do not at all.

This is about waiting, not about memory: a prefetch takes one or more batches of memory. Say how many you want to keep:
`prefetch(1)`, or `prefetch(tf.data.AUTOTUNE)`, which adds batches while steps wait.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.pipelines import autotune, batch_stage, decodes, method_of
from lowtide.doctor.code.values import DATASET, MODEL, TAPE, TRACED, Value
from lowtide.doctor.problem import Edit, Problem
from lowtide.doctor.rule import Rule

_RECORDS = ("tensorflow.data.TFRecordDataset", "tensorflow.data.FixedLengthRecordDataset")
_PREFETCHING = ("prefetch", "apply", "as_numpy_iterator")
# Stages after which only a part is used, to look at it.
_LIMITS = ("take", "unbatch")


def _check(module: Module) -> Iterator[Problem]:
    for use in _trained_on(module):
        value = module.value(use)
        if value is None or value.kind != DATASET or not value.stages or not _works(module, value):
            continue
        last = value.stages[-1]
        name = autotune(module)
        end = module.span(last)[1]
        yield Problem(
            last,
            f"the pipeline ends with {method_of(last)}, without prefetch: a training step waits until its batch is read"
            " and decoded, except where tf.data adds a prefetch of its own",
            "end the pipeline with .prefetch(tf.data.AUTOTUNE), or .prefetch(1) to keep one batch only",
            (Edit((end, end), f".prefetch({name})"),) if name is not None else (),
        )


def _trained_on(module: Module) -> Iterator[ast.expr]:
    """Yield the datasets that `fit` is given, and those over which a loop of training steps iterates."""
    for call, owner in module.method_calls("fit"):
        data = module.argument(call, 0, "x")
        if data is not None and module.kind(owner) in (MODEL, None):
            yield data
    for loop in module.nodes(ast.For):
        if any(_trains(module, each) for each in ast.walk(loop) if isinstance(each, ast.Call)):
            data = loop.iter
            if isinstance(data, ast.Call) and module.name(data.func) == "builtins.enumerate" and data.args:
                data = data.args[0]
            yield data


def _trains(module: Module, call: ast.Call) -> bool:
    if module.kind(call) == TAPE:
        return True
    step = module.value(call.func)
    return (
        step is not None
        and step.kind == TRACED
        and any(module.kind(each) == TAPE for each in ast.walk(step.origin) if isinstance(each, ast.Call))
    )


def _works(module: Module, value: Value) -> bool:
    """Whether a pipeline of batches reads or decodes files and nothing in it prepares ahead."""
    methods = [method_of(stage) for stage in value.stages]
    if batch_stage(value) is None or "map" not in methods or any(each in (*_PREFETCHING, *_LIMITS) for each in methods):
        return False
    is_cached_last = "cache" in methods[methods.index("map") :]
    reads = module.name(value.stages[0].func) in _RECORDS or any(decodes(module, stage) for stage in value.stages)
    return reads and not is_cached_last


RULE = Rule("LT204", "prefetch missing in training", _check, __doc__)
