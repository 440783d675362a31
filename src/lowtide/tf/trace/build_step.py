"""From a model or a function to its traced step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.program.graph import Shape
from lowtide.progress import ProgressCallback
from lowtide.tf.trace import keras_models as models
from lowtide.tf.trace import tuning
from lowtide.tf.trace.find_keras_objects import find_keras_objects
from lowtide.tf.trace.simulated_step import SimulatedStep
from lowtide.tf.trace.step import Step, StepMetadata, collect_metadata
from lowtide.tf.trace.trace import Trace, build_program, trace, without_garbage_collection
from lowtide.tf.trace.xla.memory import is_compiled
from lowtide.tf.trace.xla.step import CompiledStep


def build_step(
    traced: Trace,
    metadata: StepMetadata,
    label: str,
    shapes: Sequence[Shape] | None = None,
    progress: ProgressCallback | None = None,
) -> Step:
    """Build the step of a traced function: XLA's buffer assignment predicts a compiled one, a simulation any other.

    `shapes` are the shapes the function is called with, if it was traced with unknown dimensions.
    """
    if is_compiled(traced.concrete):
        given = None
        if shapes is not None:
            inputs = traced.concrete.inputs[: len(shapes)]
            given = [tf.TensorSpec(shape, each.dtype) for shape, each in zip(shapes, inputs, strict=True)]
        return CompiledStep(traced, metadata, label, given)
    program = build_program(traced, progress)
    if shapes is not None:
        program.argument_shapes[: len(shapes)] = list(shapes)
    return SimulatedStep(program, metadata, label)


def trace_target(
    target: Any,
    candidates: list[tuple[Any, ...]],
    progress: ProgressCallback | None,
    train_step: Callable[[Any], Any] | None = None,
) -> Step:
    """Trace a model or a function with the first of the candidate specs that it accepts.

    If it accepts none of them, raise the error of the first. `train_step` replaces the one of a model.
    """
    # Tracing makes very many objects that live on; the collector would go through all of them again and again.
    with without_garbage_collection():
        return _trace_target(target, candidates, progress, train_step)


def _trace_target(
    target: Any,
    candidates: list[tuple[Any, ...]],
    progress: ProgressCallback | None,
    train_step: Callable[[Any], Any] | None,
) -> Step:
    if not isinstance(target, keras.Model):
        label = getattr(target, "__name__", type(target).__name__)
        traced = trace(target, candidates[0], progress)
        metadata = collect_metadata(traced.concrete, None, find_keras_objects(target))
        return build_step(traced, metadata, label, None, progress)
    first_error: LowtideError | None = None
    for candidate in candidates:
        try:
            started = time.perf_counter()
            models.prepare(target, candidate)
            expected = tuning.TRACE_PER_PREPARATION * (time.perf_counter() - started)
            traced = trace(models.train_function(target, train_step), candidate, progress, expected)
            metadata = collect_metadata(traced.concrete, target, models.owners_of(target))
            return build_step(traced, metadata, target.name, None, progress)
        except LowtideError as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error
