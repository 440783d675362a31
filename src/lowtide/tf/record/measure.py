"""`lt.measure`: the memory of a training step, as the allocator recorded it while the step ran."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.progress import ProgressCallback
from lowtide.tf.record.child_process import measure_in_child
from lowtide.tf.record.measured_run import keeps_record, measure_here
from lowtide.tf.trace.predict import check_batch_size
from lowtide.tf.trace.specs import first_batch
from lowtide.tide.tide import Tide


def measure(
    target: Any,
    *arguments: Any,
    batch_size: int | None = None,
    steps: int = 3,
    progress: ProgressCallback | None = None,
    label: str | None = None,
) -> Tide:
    """Measure a steady step of a compiled Keras model, or of a function with its arguments, and return its tide.

    Arguments are tensors, arrays, specs from which a batch is made, or one dataset or `PyDataset`, whose first element
    is used. About ten steps are run until the allocator is in a steady state, then `steps` are recorded. All variables
    are restored afterwards. If the allocator of this process keeps no record, the step is run in a child process whose
    allocator does.
    """
    check_batch_size(batch_size)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise LowtideError("at least one step has to be recorded", given=repr(steps), cure="try 3")
    if not callable(target):
        raise LowtideError(
            "only a compiled Keras model or a function can be measured",
            given=type(target).__name__,
            cure="pass a model, or a step function followed by its arguments",
        )
    arguments = first_batch(arguments, is_model=isinstance(target, keras.Model))
    if len(arguments) == 1 and isinstance(arguments[0], tf.data.Dataset):
        arguments = _first_element(arguments[0])
    run = measure_here if keeps_record() else measure_in_child
    report = progress or (lambda _: None)
    return run(target, arguments, batch_size=batch_size, steps=steps, progress=report, label=label)


def _first_element(dataset: tf.data.Dataset) -> tuple[Any, ...]:
    """Return the first element of a dataset as the arguments of a step."""
    for element in dataset.take(1):
        return element if isinstance(element, tuple) else (element,)
    raise LowtideError(
        "the dataset yields no element",
        given=repr(dataset),
        cure="pass a dataset of batches, or the arguments of a step",
    )
