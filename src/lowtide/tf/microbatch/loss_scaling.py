"""How the loss of a micro-batch contributes to the loss of the whole batch.

A step over micro-batches averages their losses, weighted by their share of the rows. That is right for a mean over
rows, and for values that do not depend on the batch, such as weight regularizers. A sum over rows must be multiplied
by the ratio of the sizes of batch and micro-batch. A mean over unmasked rows, or over sample weights, must be divided
by the number of unmasked rows, or by the sum of weights, of the whole batch. Keras computes these in three functions,
which are replaced while the loss of a micro-batch is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from keras.src.losses import loss as keras_loss
from keras.src.metrics.reduction_metrics import Mean
from keras.src.trainers.trainer import Trainer

from lowtide.tf.microbatch.batch_rows import MicroBatch
from lowtide.tf.microbatch.row_dependence import MEAN, ROWS, SUM

# A mean over unmasked rows, or over sample weights: its divisor is that of the whole batch.
DIVIDED = "divided"

# The functions of Keras that are replaced.
keras_reduce = keras_loss.reduce_weighted_values
keras_aggregate = Trainer._aggregate_additional_loss
_keras_update = Mean.update_state


@dataclass(frozen=True)
class Reduction:
    """The arguments of Keras's reduction of a loss; `values` has one or several entries for each row."""

    values: Any
    sample_weight: Any = None
    mask: Any = None
    reduction: str | None = "sum_over_batch_size"
    dtype: Any = None

    @property
    def kind(self) -> str | None:
        """How Keras reduces the values; None if they are a scalar already, whose kind only the graph shows."""
        if len(self.values.shape) == 0:
            return None
        if self.reduction in (None, "none"):
            return ROWS
        if self.reduction == "sum":
            return SUM
        weighted = self.reduction == "mean_with_sample_weight" and self.sample_weight is not None
        return DIVIDED if weighted or self.mask is not None else MEAN

    def reduce(self) -> Any:
        """Reduce the values as Keras does."""
        return keras_reduce(self.values, self.sample_weight, self.mask, self.reduction, self.dtype)

    def divisor(self) -> Any:
        """Return the divisor of a divided mean, without the factor for a mask that is broadcast to the values."""
        if self.kind != DIVIDED:
            return None
        dtype = self.dtype or keras.config.floatx()
        mask = None if self.mask is None else ops.convert_to_tensor(self.mask, dtype=dtype)
        if self.reduction != "mean_with_sample_weight":
            return ops.sum(mask)
        weights = None if self.sample_weight is None else ops.convert_to_tensor(self.sample_weight, dtype=dtype)
        return ops.sum(keras_loss.apply_mask(weights, mask, dtype=dtype, reduction=self.reduction))

    def reduce_with(self, divisor: Any) -> Any:
        """Return what these values contribute to the mean of a whole batch with this divisor."""
        values = ops.convert_to_tensor(self.values, dtype=self.dtype)
        loss = keras_reduce(values, self.sample_weight, self.mask, "sum", self.dtype)
        if self.reduction != "mean_with_sample_weight" and tuple(values.shape) != tuple(self.mask.shape):
            loss = loss * ops.cast(ops.size(self.mask), loss.dtype) / ops.cast(ops.size(values), loss.dtype)
        loss = ops.divide_no_nan(loss, ops.cast(divisor, loss.dtype))
        return keras_loss.scale_loss_for_distribution(loss)


@dataclass
class LossScaling:
    """How each part of a loss is scaled in a micro-batch, in the order in which Keras computes the parts."""

    reductions: list[str] = field(default_factory=list)
    """How each call of a loss reduces its values."""
    additions: list[str] = field(default_factory=list)
    """How each loss that a layer adds depends on the batch."""
    total: str = MEAN
    divisors: list[Any] = field(default_factory=list)
    """The divisor of each reduction in the whole batch; None if the micro-batch needs none."""

    def weight_of(self, micro_batch: MicroBatch) -> Any:
        """Return the weight of a micro-batch's total loss."""
        return micro_batch.presence if self.total == SUM else micro_batch.share


@contextmanager
def replace_keras_losses(
    reduce: Callable[[Reduction], Any] | None = None,
    aggregate: Callable[[Any], Any] | None = None,
    update: Callable[..., Any] | None = None,
) -> Iterator[None]:
    """Replace Keras's functions that reduce losses, add losses of layers and update means of metrics."""
    with ExitStack() as stack:
        if reduce is not None:
            stack.enter_context(
                replaced(keras_loss, "reduce_weighted_values", lambda *a, **k: reduce(Reduction(*a, **k)))
            )
        if aggregate is not None:
            stack.enter_context(replaced(Trainer, "_aggregate_additional_loss", lambda _, loss: aggregate(loss)))
        if update is not None:
            stack.enter_context(replaced(Mean, "update_state", update))
        yield


@contextmanager
def replaced(owner: Any, name: str, function: Any) -> Iterator[None]:
    """Replace an attribute of `owner` inside the context."""
    original = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def scaled_losses(micro_batch: MicroBatch, scaling: LossScaling | None = None) -> Iterator[None]:
    """Scale metrics that are updated inside the context to a micro-batch; with `scaling`, losses as well."""
    reductions = iter(zip(scaling.reductions, scaling.divisors, strict=True)) if scaling else iter(())
    additions = iter(scaling.additions) if scaling else iter(())

    def scale(loss: Any) -> Any:
        return loss * ops.cast(micro_batch.scale, loss.dtype)

    def reduce(reduction: Reduction) -> Any:
        kind, divisor = next(reductions)
        if kind == DIVIDED:
            return scale(reduction.reduce_with(divisor))
        return scale(reduction.reduce()) if kind == SUM else reduction.reduce()

    def aggregate(loss: Any) -> Any:
        found = keras_aggregate(None, loss)
        return scale(found) if next(additions) == SUM else found

    def update(metric: Any, values: Any, sample_weight: Any = None) -> Any:
        # A scalar has the weight 1 for a batch, so for a micro-batch it has the micro-batch's share.
        if sample_weight is None and len(getattr(values, "shape", ())) == 0:
            sample_weight = micro_batch.share
        return _keras_update(metric, values, sample_weight=sample_weight)

    with replace_keras_losses(reduce if scaling else None, aggregate if scaling else None, update):
        yield


def compute_divisors(model: keras.Model, x: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Return the divisor of each reduction in the whole batch.

    Layers and losses compute masks, so the model is called on the whole batch. Only masks and weights of the result are
    used, and TensorFlow does not run nodes whose results are not used. In a stateless scope no variable changes.
    """
    divisors: list[Any] = []

    def reduce(reduction: Reduction) -> Any:
        divisors.append(reduction.divisor())
        return reduction.reduce()

    regularized = [(weight, weight) for weight in model.trainable_weights if weight.regularizer is not None]
    with keras.StatelessScope(regularized, collect_losses=True), tf.name_scope("whole_batch"):
        prediction = call_model(model, x)
        with replace_keras_losses(reduce):
            compute_loss(model, x, y, prediction, sample_weight)
    return divisors


def call_model(model: keras.Model, x: Any) -> Any:
    """Return the predictions, as Keras's training step computes them."""
    return model(x, training=True) if model._call_has_training_arg else model(x)


def compute_loss(model: keras.Model, x: Any, y: Any, prediction: Any, sample_weight: Any) -> Any:
    """Return the loss, as Keras's training step computes it."""
    return model._compute_loss(x=x, y=y, y_pred=prediction, sample_weight=sample_weight, training=True)
