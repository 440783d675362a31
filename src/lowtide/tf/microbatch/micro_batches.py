"""A Keras training step over a batch in pieces: one piece after the other, their gradients summed, applied once.

Each piece goes through Keras's own forward pass, loss and metrics. Everything that a step adds up over a batch is a
mean over rows or is made one (`tf/shares.py`), so that a piece weighs in with its share of the rows. What is left to do
here is to cut the batch, to sum, and to see that a piece is over before the next one begins: that saves the memory.
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
from lowtide.tf.microbatch.batch_rows import Piece, cut, first_rows, rows_of
from lowtide.tf.microbatch.loss_reductions import Stock
from lowtide.tf.microbatch.loss_scaling import Batch, call, compute_loss, in_piece

TrainStep = Callable[[Any], Any]


def split_step(model: keras.Model, pieces: int) -> TrainStep:
    """A step with the contract of `model.train_step(data)`, over `pieces` parts of the batch one after the other."""
    _check(model, pieces)
    if pieces == 1:
        return MethodType(type(model).train_step, model)
    stock = Stock(model)

    def train_step(data: Any) -> Any:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        batch = stock.take(x, y, sample_weight)
        count = rows_of(x)
        total: Any = None
        gradients: list[Any] = []
        logs: Any = None
        weights = model.trainable_weights
        many = max(min(pieces, count), 1) if isinstance(count, int) else pieces
        for index in range(many):
            with _after([total, gradients, logs], model.jit_compile) as zero, tf.name_scope(f"piece_{index + 1}"):
                piece = Piece.of(count, index, many)
                part = cut((x, y, sample_weight), piece)
                part = (_plus(part[0], zero), *part[1:])
                loss, prediction, found = _piece_gradients(model, batch, piece, part, weights)
                total = loss if total is None else total + loss
                gradients = _sum(gradients, found)
                if index < many - 1:
                    logs = _metrics(model, piece, part, prediction)
        model._loss_tracker.update_state(unscale_loss_for_distribution(total), sample_weight=count)
        # Grappler may drop the edges that keep a weight's update behind its reads in the last piece.
        with _after([total, gradients], model.jit_compile):
            _apply(model, gradients, weights)
        return _metrics(model, piece, part, prediction)

    train_step.lowtide_pieces = pieces  # type: ignore[attr-defined]
    return train_step


def _check(model: keras.Model, pieces: int) -> None:
    if not isinstance(pieces, int) or isinstance(pieces, bool) or pieces < 1:
        raise LowtideError("a batch is split into one piece or more", given=repr(pieces))
    if not model.compiled:
        raise LowtideError(
            "the model is not compiled", given=model.name, cure="call model.compile(optimizer=..., loss=...) first"
        )
    own = model.__dict__.get("train_step")
    if type(model).train_step is not TensorFlowTrainer.train_step or (own and not hasattr(own, "lowtide_pieces")):
        raise LowtideError(
            "the model has a train_step of its own, which lowtide cannot split: only its author knows what it adds up",
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
        raise LowtideError("float8 scales are set from a whole batch, so the batch cannot be split", given=model.name)


def _piece_gradients(
    model: keras.Model, batch: Batch, piece: Piece, part: tuple[Any, Any, Any], weights: Sequence[Any]
) -> tuple[Any, Any, list[Any]]:
    """What the piece adds to the batch's loss, its predictions, and what it adds to the gradients."""
    x, y, sample_weight = part
    with tf.GradientTape() as tape:
        prediction = call(model, x)
        with in_piece(piece, batch):
            loss = compute_loss(model, x, y, prediction, sample_weight)
        # A loss that is not reduced is summed by its gradient, but its mean is what Keras tells.
        per_row = len(loss.shape) > 0
        weighed = loss * tf.cast(piece.presence if per_row else batch.weight_of(piece), loss.dtype)
        scaled = model.optimizer.scale_loss(weighed)
    told = tf.reduce_mean(loss) * tf.cast(piece.share, loss.dtype) if per_row else weighed
    return told, prediction, tape.gradient(scaled, weights) if weights else []


def _sum(so_far: list[Any], found: list[Any]) -> list[Any]:
    return [_add(*pair) for pair in zip(so_far, found, strict=True)] if so_far else found


def _add(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, tf.IndexedSlices) and isinstance(other, tf.IndexedSlices):
        # Optimizers square the slices one by one: summing slices of the same row would give another update.
        values = tf.concat([one.values, other.values], axis=0)
        return tf.IndexedSlices(values, tf.concat([one.indices, other.indices], axis=0), one.dense_shape)
    return tf.convert_to_tensor(one) + tf.convert_to_tensor(other)


def _metrics(model: keras.Model, piece: Piece, part: tuple[Any, Any, Any], prediction: Any) -> Any:
    x, y, sample_weight = first_rows(part, piece)
    with in_piece(piece):
        return model.compute_metrics(x, y, first_rows(prediction, piece), sample_weight=sample_weight)


def _apply(model: keras.Model, gradients: list[Any], weights: Sequence[Any]) -> None:
    if not weights:
        warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return
    model.optimizer.apply_gradients(zip(gradients, weights, strict=True))


@contextmanager
def _after(values: Any, compiled: bool) -> Iterator[Any]:
    """What is made inside runs after `values` are there.

    TensorFlow's executor keeps to control edges. XLA does not: there it is for what is made inside to add this to its
    inputs, a number that hangs on the values and is always zero, which the compiler cannot know.
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
    """An integer zero that is there when all `tensors` are: whether their sum is one certain NaN."""
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
