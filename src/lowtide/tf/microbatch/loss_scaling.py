"""What a piece of a batch adds to the batch's loss.

A step over pieces takes the mean of what the pieces give, each with its share of the rows. That is right for a mean
over rows, and for what does not hang on the batch at all, like the regularizers of weights: it is counted once. For
nothing else: a sum must be made as much larger as the batch is than the piece, and a mean over what a mask leaves, or
over sample weights, must be divided by what there is of them in the whole batch. Keras comes by all of it in three
places, and this file stands in for them while the loss of a piece is made.
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

from lowtide.tf.microbatch.batch_rows import Piece
from lowtide.tf.microbatch.row_dependence import MEAN, ROWS, SUM

# A mean over what a mask leaves, or over sample weights: of the whole batch, not of the piece.
DIVIDED = "divided"

# What Keras itself does in these places.
reduce_plainly = keras_loss.reduce_weighted_values
aggregate_plainly = Trainer._aggregate_additional_loss
_update_plainly = Mean.update_state


@dataclass(frozen=True)
class Reduction:
    """What a loss is asked to reduce: its values, one for each row or several."""

    values: Any
    sample_weight: Any = None
    mask: Any = None
    reduction: str | None = "sum_over_batch_size"
    dtype: Any = None

    @property
    def kind(self) -> str | None:
        """How Keras reduces them; None where there is one number already, and it must tell by itself."""
        if len(self.values.shape) == 0:
            return None
        if self.reduction in (None, "none"):
            return ROWS
        if self.reduction == "sum":
            return SUM
        weighed = self.reduction == "mean_with_sample_weight" and self.sample_weight is not None
        return DIVIDED if weighed or self.mask is not None else MEAN

    def plainly(self) -> Any:
        return reduce_plainly(self.values, self.sample_weight, self.mask, self.reduction, self.dtype)

    def divisor(self) -> Any:
        """What a divided mean divides by; but for the size of what the mask is broadcast to."""
        if self.kind != DIVIDED:
            return None
        dtype = self.dtype or keras.config.floatx()
        mask = None if self.mask is None else ops.convert_to_tensor(self.mask, dtype=dtype)
        if self.reduction != "mean_with_sample_weight":
            return ops.sum(mask)
        weights = None if self.sample_weight is None else ops.convert_to_tensor(self.sample_weight, dtype=dtype)
        return ops.sum(keras_loss.apply_mask(weights, mask, dtype=dtype, reduction=self.reduction))

    def divided(self, divisor: Any) -> Any:
        """The part that these values are of the mean over a whole batch with that divisor."""
        values = ops.convert_to_tensor(self.values, dtype=self.dtype)
        loss = reduce_plainly(values, self.sample_weight, self.mask, "sum", self.dtype)
        if self.reduction != "mean_with_sample_weight" and tuple(values.shape) != tuple(self.mask.shape):
            loss = loss * ops.cast(ops.size(self.mask), loss.dtype) / ops.cast(ops.size(values), loss.dtype)
        loss = ops.divide_no_nan(loss, ops.cast(divisor, loss.dtype))
        return keras_loss.scale_loss_for_distribution(loss)


@dataclass
class Batch:
    """What must be known of a batch before it is split, in the order in which Keras comes by it."""

    reductions: list[str] = field(default_factory=list)
    """How each call of a loss reduces its values."""
    additions: list[str] = field(default_factory=list)
    """How each loss that a layer adds hangs on the batch."""
    total: str = MEAN
    divisors: list[Any] = field(default_factory=list)
    """What each reduction divides by in the whole batch; None where the piece itself knows."""

    def weight_of(self, piece: Piece) -> Any:
        """What the total loss of a piece weighs."""
        return piece.presence if self.total == SUM else piece.share


@contextmanager
def stand_in(
    reduce: Callable[[Reduction], Any] | None = None,
    aggregate: Callable[[Any], Any] | None = None,
    update: Callable[..., Any] | None = None,
) -> Iterator[None]:
    """Losses that are reduced, losses of layers and means of metrics are made by these functions meanwhile."""
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
    """The owner's function is another one meanwhile."""
    original = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def in_piece(piece: Piece, batch: Batch | None = None) -> Iterator[None]:
    """Metrics updated inside are those of a piece; with what is known of its batch, so are losses."""
    reductions = iter(zip(batch.reductions, batch.divisors, strict=True)) if batch else iter(())
    additions = iter(batch.additions) if batch else iter(())

    def scaled(loss: Any) -> Any:
        return loss * ops.cast(piece.scale, loss.dtype)

    def reduce(asked: Reduction) -> Any:
        kind, divisor = next(reductions)
        if kind == DIVIDED:
            return scaled(asked.divided(divisor))
        return scaled(asked.plainly()) if kind == SUM else asked.plainly()

    def aggregate(loss: Any) -> Any:
        found = aggregate_plainly(None, loss)
        return scaled(found) if next(additions) == SUM else found

    def update(metric: Any, values: Any, sample_weight: Any = None) -> Any:
        # One number for a batch counts as one; of the pieces, each counts with its share.
        if sample_weight is None and len(getattr(values, "shape", ())) == 0:
            sample_weight = piece.share
        return _update_plainly(metric, values, sample_weight=sample_weight)

    with stand_in(reduce if batch else None, aggregate if batch else None, update):
        yield


def whole_divisors(model: keras.Model, x: Any, y: Any, sample_weight: Any) -> list[Any]:
    """What each reduction divides by in the whole batch.

    Masks are made by layers and by losses, so the model is called on the whole batch; but only masks and weights are
    used of what it gives, and TensorFlow does not run what nobody uses. In a stateless scope no variable changes.
    """
    divisors: list[Any] = []

    def reduce(asked: Reduction) -> Any:
        divisors.append(asked.divisor())
        return asked.plainly()

    regularized = [(weight, weight) for weight in model.trainable_weights if weight.regularizer is not None]
    with keras.StatelessScope(regularized, collect_losses=True), tf.name_scope("whole_batch"):
        prediction = call(model, x)
        with stand_in(reduce):
            compute_loss(model, x, y, prediction, sample_weight)
    return divisors


def call(model: keras.Model, x: Any) -> Any:
    """The predictions, as Keras's own step asks for them."""
    return model(x, training=True) if model._call_has_training_arg else model(x)


def compute_loss(model: keras.Model, x: Any, y: Any, prediction: Any, sample_weight: Any) -> Any:
    return model._compute_loss(x=x, y=y, y_pred=prediction, sample_weight=sample_weight, training=True)
