"""A Keras training step over micro-batches: they run one after the other, and their summed gradients are applied once.

Each micro-batch runs through Keras's own forward pass, loss and metrics. Everything that a step sums over a batch is a
mean over rows, or is turned into one by `loss_scaling`, so that a micro-batch is weighted by its share of the rows.
This module slices the batch, sums gradients, and makes each micro-batch wait for the one before: that saves the memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.losses.loss import unscale_loss_for_distribution

from lowtide.errors import LowtideError
from lowtide.tf.microbatch.batch_rows import MicroBatch, count_rows, keep_counted, slice_rows
from lowtide.tf.microbatch.loss_reductions import LossScalingCache
from lowtide.tf.microbatch.loss_scaling import LossScaling, call_model, compute_loss, scaled_losses

TrainStep = Callable[[Any], Any]


def split_step(model: keras.Model, count: int) -> TrainStep:
    """Return a step like `model.train_step(data)` that runs over `count` micro-batches, one after the other."""
    _check(model, count)
    if count == 1:
        return MethodType(type(model).train_step, model)
    scalings = LossScalingCache(model)

    def train_step(data: Any) -> Any:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        scaling = scalings.find(x, y, sample_weight)
        rows = count_rows(x)
        total: Any = None
        gradients: list[Any] = []
        logs: Any = None
        weights = model.trainable_weights
        micro_batches = max(min(count, rows), 1) if isinstance(rows, int) else count
        for index in range(micro_batches):
            scope = tf.name_scope(f"micro_batch_{index + 1}")
            with _after([total, gradients, logs], model.jit_compile) as zero, scope:
                micro_batch = MicroBatch.of(rows, index, micro_batches)
                part = slice_rows((x, y, sample_weight), micro_batch)
                part = (_plus(part[0], zero), *part[1:])
                loss, prediction, found = _compute_gradients(model, scaling, micro_batch, part, weights)
                total = loss if total is None else total + loss
                gradients = _sum(gradients, found)
                if index < micro_batches - 1:
                    logs = _update_metrics(model, micro_batch, part, prediction)
        model._loss_tracker.update_state(unscale_loss_for_distribution(total), sample_weight=rows)
        # Grappler may drop the edges that make a weight's update wait for its reads in the last micro-batch.
        with _after([total, gradients], model.jit_compile):
            _apply(model, gradients, weights)
        return _update_metrics(model, micro_batch, part, prediction)

    train_step.lowtide_micro_batches = count  # type: ignore[attr-defined]
    return train_step


def _check(model: keras.Model, count: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise LowtideError("a batch is split into at least one micro-batch", given=repr(count))
    if not model.compiled:
        raise LowtideError(
            "the model is not compiled", given=model.name, cure="call model.compile(optimizer=..., loss=...) first"
        )
    own = model.__dict__.get("train_step")
    if type(model).train_step is not TensorFlowTrainer.train_step or (
        own and not hasattr(own, "lowtide_micro_batches")
    ):
        raise LowtideError(
            "the model overrides train_step, and lowtide cannot split a train_step that it does not know",
            given=type(model).__name__,
            cure="split the batch there, or override compute_loss instead of train_step",
        )
    stateful = [layer.name for layer in model._flatten_layers() if getattr(layer, "stateful", False)]
    if stateful:
        raise LowtideError(
            "a layer keeps a state for each row of the batch, so the batch cannot be split",
            given=", ".join(stateful),
            cure="build it with stateful=False",
        )
    if any(getattr(weight, "overwrite_with_gradient", False) for weight in model.trainable_weights):
        raise LowtideError(
            "float8 scales are computed from a whole batch, so the batch cannot be split", given=model.name
        )


def _compute_gradients(
    model: keras.Model,
    scaling: LossScaling,
    micro_batch: MicroBatch,
    part: tuple[Any, Any, Any],
    weights: Sequence[Any],
) -> tuple[Any, Any, list[Any]]:
    """Return the micro-batch's contribution to the loss, its predictions, and its contribution to the gradients."""
    x, y, sample_weight = part
    with tf.GradientTape() as tape:
        prediction = call_model(model, x)
        with scaled_losses(micro_batch, scaling):
            loss = compute_loss(model, x, y, prediction, sample_weight)
        # The gradient of a loss that is not reduced is that of its sum, but Keras reports its mean.
        per_row = len(loss.shape) > 0
        weighted = loss * tf.cast(micro_batch.presence if per_row else scaling.weight_of(micro_batch), loss.dtype)
        scaled = model.optimizer.scale_loss(weighted)
    reported = tf.reduce_mean(loss) * tf.cast(micro_batch.share, loss.dtype) if per_row else weighted
    return reported, prediction, tape.gradient(scaled, weights) if weights else []


def _sum(gradients: list[Any], more: list[Any]) -> list[Any]:
    return [_add(*pair) for pair in zip(gradients, more, strict=True)] if gradients else more


def _add(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, tf.IndexedSlices) and isinstance(other, tf.IndexedSlices):
        # Optimizers square each slice by itself: summing the slices of one row would give another update.
        values = tf.concat([one.values, other.values], axis=0)
        return tf.IndexedSlices(values, tf.concat([one.indices, other.indices], axis=0), one.dense_shape)
    return tf.convert_to_tensor(one) + tf.convert_to_tensor(other)


def _update_metrics(model: keras.Model, micro_batch: MicroBatch, part: tuple[Any, Any, Any], prediction: Any) -> Any:
    x, y, sample_weight = keep_counted(part, micro_batch)
    with scaled_losses(micro_batch):
        return model.compute_metrics(x, y, keep_counted(prediction, micro_batch), sample_weight=sample_weight)


def _apply(model: keras.Model, gradients: list[Any], weights: Sequence[Any]) -> None:
    if not weights:
        warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return
    model.optimizer.apply_gradients(zip(gradients, weights, strict=True))


@contextmanager
def _after(values: Any, compiled: bool) -> Iterator[Any]:
    """Make the ops that are created inside the context run after `values` are computed.

    TensorFlow's executor follows control edges. XLA ignores them: for a compiled step this yields a number to add to
    the inputs. It is computed from the values and is always zero, which the compiler cannot find out.
    """
    flat = [value for value in tf.nest.flatten(values, expand_composites=True) if value is not None]
    if not flat or tf.executing_eagerly():
        yield None
    elif compiled:
        yield _zero_from(flat)
    else:
        with tf.control_dependencies([tf.group(*flat)]):
            yield None


def _zero_from(tensors: list[Any]) -> Any:
    """Return an integer zero that depends on all `tensors`: whether their sum is one particular NaN."""
    ends = [tf.cast(tf.reshape(tensor, [-1])[:1], tf.float32) for tensor in tensors]
    bits = tf.bitcast(tf.reduce_sum(tf.concat(ends, axis=0)), tf.int32)
    return tf.cast(tf.equal(bits, 0x7FC12345), tf.int32)


def _plus(structure: Any, zero: Any) -> Any:
    if zero is None:
        return structure

    def add(leaf: Any) -> Any:
        numeric = isinstance(leaf, tf.Tensor) and (leaf.dtype.is_floating or leaf.dtype.is_integer)
        return leaf + tf.cast(zero, leaf.dtype) if numeric else leaf

    return keras.tree.map_structure(add, structure)
