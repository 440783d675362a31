"""Measure: what a training step takes, as the allocator recorded it while the step ran."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.oom.evidence import Request
from lowtide.oom.log_reader import read_log_evidence
from lowtide.progress import ProgressCallback
from lowtide.tf.record import batches
from lowtide.tf.record.measured_run import Step, keeps_record, rehearse
from lowtide.tf.record.variable_snapshot import Snapshot
from lowtide.tf.trace import keras_models as models
from lowtide.tf.trace.find_keras_objects import find_keras_objects
from lowtide.tf.trace.predict import check_batch_size
from lowtide.tf.trace.trace import trace
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes


def measure(
    target: Any,
    *arguments: Any,
    batch_size: int | None = None,
    steps: int = 3,
    progress: ProgressCallback | None = None,
    label: str | None = None,
) -> Tide:
    """The tide of a steady step of a compiled Keras model, or of a function with its arguments, recorded while it ran.

    Arguments are tensors, arrays, or specs to make a batch from. Some ten steps are run until the allocator has
    settled, then `steps` are recorded. Every variable holds afterwards what it held before. Where the allocator of
    this process keeps no record, the step is run in a child process that has one.
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
    tell = progress or (lambda text: None)
    if keeps_record():
        return measure_here(target, arguments, batch_size=batch_size, steps=steps, progress=tell, label=label)
    from lowtide.tf.record.child_process import measure_in_child

    return measure_in_child(target, arguments, batch_size=batch_size, steps=steps, progress=tell, label=label)


def measure_here(
    target: Any,
    arguments: tuple[Any, ...],
    *,
    batch_size: int | None,
    steps: int,
    progress: ProgressCallback,
    label: str | None,
) -> Tide:
    """Run the step in this process."""
    # What nobody refers to any more would count until the collector happens to come by.
    gc.collect()
    if not isinstance(target, keras.Model):
        return _measure(_function_step(target, arguments, batch_size, label, progress), steps, progress)
    first_error: Exception | None = None
    for candidate in models.candidate_specs(target, arguments):
        try:
            with _model_step(target, candidate, batch_size, label) as step:
                return _measure(step, steps, progress)
        except (LowtideError, tf.errors.ResourceExhaustedError):
            raise
        except Exception as error:
            # A model does not say what its targets look like: it may take none.
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def _measure(step: Step, steps: int, progress: ProgressCallback) -> Tide:
    """Run it, and leave no trace of that in any variable."""
    snapshot = Snapshot()
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        try:
            return rehearse(step, Path(folder), steps, progress, snapshot)
        except tf.errors.ResourceExhaustedError as error:
            raise out_of_memory(step.label, str(error).encode().splitlines()) from error
        finally:
            snapshot.restore()


def _function_step(
    target: Callable[..., Any],
    arguments: tuple[Any, ...],
    batch_size: int | None,
    label: str | None,
    progress: ProgressCallback,
) -> Step:
    """A function is called as it is: traced if it is a tf.function, else op by op."""
    given = arguments or tuple(getattr(target, "input_signature", None) or ())
    values = batches.filled(given, batch_size)
    if hasattr(target, "get_concrete_function"):
        # Variables that it creates are there, and hold their first values, before anything runs.
        trace(target, values, progress)
    return Step(
        run=lambda: target(*values),
        label=label or str(getattr(target, "__name__", type(target).__name__)),
        inputs=[leaf for leaf in tf.nest.flatten(list(values)) if isinstance(leaf, tf.Tensor)],
        batch_size=batches.size_of(list(values)) if batch_size is None else batch_size,
        owners=find_keras_objects(target),
    )


@contextmanager
def _model_step(model: keras.Model, data: tuple[Any, ...], batch_size: int | None, label: str | None) -> Iterator[Step]:
    """A model takes the step that `fit` would take, drawing one and the same batch again and again."""
    given = batches.rows(data, batch_size)
    batch = batches.filled(given, batch_size, model)
    specs = tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), list(batch))
    models.prepare(model, tuple(specs))
    # A data set of inputs alone yields x itself, not a tuple; and it takes a list for a tensor.
    element = keras.tree.lists_to_tuples(batch if len(batch) > 1 else batch[0])
    iterator = iter(tf.data.Dataset.from_tensors(element).repeat())
    before = model.train_function
    model.make_train_function(force=True)
    function = model.train_function
    try:
        yield Step(
            run=lambda: function(iterator),
            label=label or model.name,
            inputs=[leaf for leaf in tf.nest.flatten(list(batch)) if isinstance(leaf, tf.Tensor)],
            batch_size=batches.size_of(list(batch)) if batch_size is None else batch_size,
            owners=models.owners_of(model),
        )
    finally:
        model.train_function = before


def out_of_memory(label: str, lines: list[bytes]) -> LowtideError:
    """What TensorFlow said when it ran out, in one line."""
    found = [evidence.request for evidence in read_log_evidence(lines)]
    request = found[-1] if found else Request()
    by = next((f" by {each}" for each in (request.node, request.op) if each), "")
    asked = "" if request.bytes is None else f": {format_bytes(request.bytes)} were asked for{by} and not to be had"
    return LowtideError(
        f"{label} ran out of memory while it was measured{asked}",
        cure="try a smaller batch, or lt.predict, which allocates nothing",
    )
