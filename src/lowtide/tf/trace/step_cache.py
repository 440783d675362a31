"""Known steps: of a model or a function, traced once for each batch size and found again."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.progress import ProgressCallback
from lowtide.tf.trace import keras_models as models
from lowtide.tf.trace.find_keras_objects import keras_objects
from lowtide.tf.trace.rescale import SMALLEST_TELLING_BATCH
from lowtide.tf.trace.simulated_step import Step, belongings_of, step_of
from lowtide.tf.trace.trace import trace

_KNOWN: weakref.WeakKeyDictionary[Any, tuple[Any, dict[int | None, Step]]] = weakref.WeakKeyDictionary()


def find_step(
    target: Any,
    specs: tuple[Any, ...],
    batch_size: int | None,
    progress: ProgressCallback | None,
    exactly: bool = False,
) -> Step:
    """The traced step of a target: one that is known already, also of another batch size unless asked `exactly`."""
    if not isinstance(target, keras.Model) and not callable(target):
        raise LowtideError(
            "only a compiled Keras model or a function can be predicted",
            given=type(target).__name__,
            cure="pass a model, or a step function followed by a tf.TensorSpec for each of its inputs",
        )
    fingerprint, candidates = _candidates(target, specs, batch_size)
    if batch_size is None:
        # The specs say it: two calls with other rows are two programs.
        batch_size = _common_rows(candidates[0])
    stored, steps = _KNOWN.get(target, (None, {}))
    if stored != fingerprint:
        steps = {}
    if batch_size in steps:
        steps[batch_size].seconds = {}
        return steps[batch_size]
    telling = [
        size for size, step in steps.items() if size is not None and size >= SMALLEST_TELLING_BATCH and step.rescales
    ]
    if telling and batch_size is not None and not exactly:
        nearest = steps[min(telling, key=lambda size: abs(math.log(size / batch_size)))]
        nearest.seconds = {}
        return nearest
    step = _trace_first(target, candidates, progress)
    # Tracing builds what was not built yet, which changes the fingerprint.
    fingerprint, _ = _candidates(target, specs, batch_size)
    steps[batch_size] = step
    _KNOWN[target] = (fingerprint, steps)
    return step


def _candidates(target: Any, specs: tuple[Any, ...], batch_size: int | None) -> tuple[Any, list[tuple[Any, ...]]]:
    """What a trace depends on besides the batch size, and the specs to try, with the batch filled in."""
    fingerprint: Any
    if isinstance(target, keras.Model):
        candidates = models.candidate_specs(target, specs)
        fingerprint = models.fingerprint(target, specs)
    else:
        signature = getattr(target, "input_signature", None)
        candidates = [specs or tuple(signature or ())]
        fingerprint = repr(_open_batch(candidates[0]))
    return fingerprint, [with_batch(candidate, batch_size) for candidate in candidates]


def _leaves(specs: Any) -> list[Any]:
    return [spec for spec in tf.nest.flatten(list(specs)) if getattr(spec, "shape", None) is not None]


def _common_rows(specs: tuple[Any, ...]) -> int | None:
    """The leading size that all specs share."""
    rows = {spec.shape[0] for spec in _leaves(specs) if spec.shape.rank}
    return rows.pop() if len(rows) == 1 else None


def _open_batch(specs: tuple[Any, ...]) -> list[Any]:
    return [(None if spec.shape.rank else (), tuple(spec.shape)[1:], spec.dtype.name) for spec in _leaves(specs)]


def with_batch(specs: tuple[Any, ...], batch_size: int | None) -> tuple[Any, ...]:
    """The specs with every leading dimension set to the batch, where one is asked for."""
    opened = any(spec.shape.rank and spec.shape[0] is None for spec in _leaves(specs))
    common = {spec.shape[0] for spec in _leaves(specs) if spec.shape.rank}

    def fill(spec: Any) -> Any:
        if not getattr(spec, "shape", None) or not spec.shape.rank:
            return spec
        leading = spec.shape[0]
        replaced = batch_size is not None and (leading is None or (not opened and len(common) == 1))
        shape = (batch_size if replaced else leading, *spec.shape[1:])
        if None in shape:
            cure = "pass batch_size=" if None not in shape[1:] else "give every dimension but the first a size"
            raise LowtideError("an input has an unknown dimension", given=tuple(spec.shape), cure=cure)
        return tf.TensorSpec(shape, spec.dtype, name=spec.name)

    return tuple(tf.nest.map_structure(fill, list(specs)))


def trace_model(
    model: keras.Model,
    specs: tuple[Any, ...],
    batch_size: int | None,
    train_step: Callable[[Any], Any],
    progress: ProgressCallback | None,
) -> Step:
    """The step of a model with a training step that is not its own."""
    return _trace_first(model, _candidates(model, specs, batch_size)[1], progress, train_step)


def _trace_first(
    target: Any,
    candidates: list[tuple[Any, ...]],
    progress: ProgressCallback | None,
    train_step: Callable[[Any], Any] | None = None,
) -> Step:
    """Trace with the first specs that the target accepts; the first error is the one to tell."""
    if not isinstance(target, keras.Model):
        label = getattr(target, "__name__", type(target).__name__)
        traced = trace(target, candidates[0], progress)
        return step_of(traced, belongings_of(traced.concrete, None, keras_objects(target)), label, None, progress)
    first_error: LowtideError | None = None
    for candidate in candidates:
        try:
            models.prepare(target, candidate)
            traced = trace(models.train_step_of(target, train_step), candidate, progress)
            belongings = belongings_of(traced.concrete, target, models.owners_of(target))
            return step_of(traced, belongings, target.name, None, progress)
        except LowtideError as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error
