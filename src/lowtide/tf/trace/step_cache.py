"""Traced steps of models and functions, kept per batch size, so that none is traced twice."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras

from lowtide.errors import LowtideError
from lowtide.progress import ProgressCallback
from lowtide.tf.trace import keras_models as models
from lowtide.tf.trace.build_step import trace_target
from lowtide.tf.trace.rescale import SMALLEST_RESCALED_BATCH
from lowtide.tf.trace.specs import Specs, as_specs, common_rows, takes_batch, tensor_specs, with_batch, without_batch
from lowtide.tf.trace.step import Step

_STEPS: weakref.WeakKeyDictionary[Any, tuple[Any, dict[int | None, Step]]] = weakref.WeakKeyDictionary()


def find_step(
    target: Any, specs: Specs, batch_size: int | None, progress: ProgressCallback | None, exactly: bool = False
) -> Step:
    """Return the traced step of a target, from the cache if possible.

    A step that was traced for another batch size is returned if it can be rescaled, except with `exactly`.
    """
    if not isinstance(target, keras.Model) and not callable(target):
        raise LowtideError(
            "only a compiled Keras model or a function can be predicted",
            given=type(target).__name__,
            cure="pass a model, or a step function followed by a tf.TensorSpec for each of its inputs",
        )
    fingerprint, candidates = _candidates(target, specs, batch_size)
    if batch_size is None:
        # The specs contain it: calls with other sizes are other programs.
        batch_size = common_rows(candidates[0])
    stored, steps = _STEPS.get(target, (None, {}))
    if stored != fingerprint:
        steps = {}
    if batch_size in steps:
        steps[batch_size].seconds = {}
        return steps[batch_size]
    if batch_size is not None and not exactly:
        for step in _nearest_first(steps, batch_size):
            if step.rescales_to(batch_size):
                step.seconds = {}
                return step
    step = trace_target(target, candidates, progress)
    # Tracing builds layers that were not built yet, which changes the fingerprint.
    fingerprint, _ = _candidates(target, specs, batch_size)
    steps[batch_size] = step
    _STEPS[target] = (fingerprint, steps)
    return step


def find_near_step(target: Any, specs: Specs, batch_size: int) -> Step | None:
    """Return the traced step of a target whose batch size is nearest to this one; None if it was never traced."""
    fingerprint, _ = _candidates(target, specs, batch_size)
    stored, steps = _STEPS.get(target, (None, {}))
    return next(_nearest_first(steps, batch_size), None) if stored == fingerprint else None


def _nearest_first(steps: dict[int | None, Step], batch_size: int) -> Iterator[Step]:
    sizes = [size for size in steps if size is not None and size >= SMALLEST_RESCALED_BATCH]
    return (steps[size] for size in sorted(sizes, key=lambda size: abs(math.log(size / batch_size))))


def trace_model(
    model: keras.Model,
    specs: Specs,
    batch_size: int | None,
    train_step: Callable[[Any], Any],
    progress: ProgressCallback | None,
) -> Step:
    """Trace a model with `train_step` in place of its own; nothing is cached."""
    return trace_target(model, _candidates(model, specs, batch_size)[1], progress, train_step)


def _candidates(target: Any, specs: Specs, batch_size: int | None) -> tuple[Any, list[Specs]]:
    """Return what a trace depends on besides the batch size, and the specs to try, with the batch size filled in."""
    fingerprint: Any
    specs = as_specs(specs, is_model=isinstance(target, keras.Model))
    if isinstance(target, keras.Model):
        candidates = models.candidate_specs(target, specs)
        fingerprint = models.fingerprint(target, specs)
    else:
        signature = getattr(target, "input_signature", None)
        candidates = [specs or tuple(signature or ())]
        fingerprint = repr(without_batch(candidates[0]))
    if batch_size is not None and not takes_batch(candidates[0]):
        raise LowtideError(
            "no first dimension of the inputs is known to be the batch",
            given=", ".join(str(tuple(spec.shape)) for spec in tensor_specs(candidates[0])) or "no inputs",
            cure="leave the first dimension open where it is that of the batch: tf.TensorSpec((None, ...))",
        )
    filled = [with_batch(candidate, batch_size) for candidate in candidates]
    if isinstance(target, keras.Model):
        models.check_rows(filled[0])
    return fingerprint, filled
