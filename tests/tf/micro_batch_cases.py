"""Models and batches for steps over micro-batches: the ways in which a loss may depend on a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, losses, ops

ROWS = 10


def random(*shape: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def weights(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(7).uniform(0.1, 2.0, size=shape), tf.float32)


def integers(high: int, *shape: int, low: int = 0, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).integers(low, high, size=shape), tf.int32)


def mlp(loss: Any = "mse", optimizer: Any = "sgd", **compiled: Any) -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(3)])
    model.compile(optimizer, loss, metrics=["mae"], **compiled)
    return model


X, Y, W = random(ROWS, 6), random(ROWS, 3, seed=1), weights(ROWS)
Case = tuple[Callable[[], keras.Model], Any]


def regularized() -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="tanh", kernel_regularizer="l2", activity_regularizer="l1"),
            layers.Dense(3, bias_regularizer="l1"),
        ]
    )
    model.compile("sgd", losses.MeanSquaredError(reduction="sum"), metrics=["mae"])
    return model


def several_outputs() -> keras.Model:
    left, right = keras.Input((6,), name="left"), keras.Input((4,), name="right")
    hidden = layers.Dense(8, activation="tanh")(layers.Concatenate()([left, right]))
    outputs = {"number": layers.Dense(2, name="number")(hidden), "kind": layers.Dense(5, name="kind")(hidden)}
    model = keras.Model({"left": left, "right": right}, outputs)
    model.compile(
        "adam",
        {"number": "mae", "kind": losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")},
        loss_weights={"number": 2.0, "kind": 0.25},
        metrics={"number": "mse", "kind": "accuracy"},
        weighted_metrics={"kind": "accuracy"},
    )
    return model


SEVERAL = (
    {"left": X, "right": random(ROWS, 4, seed=3)},
    {"number": random(ROWS, 2, seed=4), "kind": integers(5, ROWS)},
)


def masked(loss: Any) -> keras.Model:
    model = keras.Sequential(
        [keras.Input((7,), dtype="int32"), layers.Embedding(9, 4, mask_zero=True), layers.Dense(6)]
    )
    model.compile("adam", loss, metrics=["accuracy"], weighted_metrics=["accuracy"])
    return model


TOKENS = tf.where(tf.range(7)[None] < integers(8, ROWS, 1, low=1), integers(9, ROWS, 7, low=1), 0)
SEQUENCES = (TOKENS, integers(6, ROWS, 7, seed=5))


def ignoring_a_class() -> keras.Model:
    model = keras.Sequential([keras.Input((4, 4, 2)), layers.Conv2D(3, 3, padding="same")])
    model.compile("sgd", losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1), metrics=["accuracy"])
    return model


class AddedLosses(layers.Layer):
    """Adds a mean, a sum and a value that does not depend on the batch."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, inputs):
        self.add_loss(ops.mean(ops.square(inputs)) * 0.1)
        self.add_loss(0.01 * ops.sum(ops.abs(inputs) * self.scale))
        self.add_loss(ops.sum(inputs, axis=(0, 1)) / ops.cast(ops.shape(inputs)[0], "float32"))
        self.add_loss(ops.square(self.scale))
        return inputs * self.scale


def added_losses() -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4), AddedLosses(), layers.Dense(3)])
    model.compile("sgd", "mse")
    return model


class OwnLoss(keras.Model):
    """Has a compute_loss of its own, with a part that is Keras's and a tracker."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.hidden, self.last = layers.Dense(5, kernel_regularizer="l2"), layers.Dense(3)
        self.tracker = keras.metrics.Mean(name="own")

    def call(self, inputs):
        return self.last(self.hidden(inputs))

    def compute_loss(self, x, y, y_pred, sample_weight, training=True):
        own = ops.mean(ops.square(ops.sum(y_pred, axis=-1) - ops.sum(x, axis=-1)))
        self.tracker.update_state(own)
        return super().compute_loss(x, y, y_pred, sample_weight) + 0.5 * own


def own_loss() -> keras.Model:
    model = OwnLoss()
    model.compile("sgd", losses.MeanSquaredError(reduction="mean_with_sample_weight"))
    model(X)
    return model


def mean_of_all(y, prediction):
    return ops.mean(ops.square(y - prediction))


def sum_of_all(y, prediction):
    return ops.sum(ops.square(y - prediction))


def own_metric(y, prediction):
    return ops.mean(ops.abs(y - prediction))


def scalar_loss(loss: Any) -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    model.compile("sgd", loss, metrics=[own_metric])
    return model


def half_precision() -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(3)])
    for layer in model.layers:
        layer.dtype_policy = "mixed_float16"
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), "mse")
    return model


CASES: dict[str, Case] = {
    "mean": (mlp, (X, Y)),
    "mean, weighed": (lambda: mlp(weighted_metrics=["mse"]), (X, Y, W)),
    "sum": (lambda: mlp(losses.MeanSquaredError(reduction="sum")), (X, Y, W)),
    "mean of weights": (lambda: mlp(losses.MeanSquaredError(reduction="mean_with_sample_weight")), (X, Y, W)),
    "not reduced": (lambda: mlp(losses.MeanSquaredError(reduction="none")), (X, Y, W)),
    "regularized": (regularized, (X, Y)),
    "several outputs": (several_outputs, (*SEVERAL, W)),
    "several outputs, weighed apart": (several_outputs, (*SEVERAL, {"number": W, "kind": weights(ROWS)})),
    "masked": (lambda: masked(losses.SparseCategoricalCrossentropy(from_logits=True)), SEQUENCES),
    "masked, weighed": (
        lambda: masked(losses.SparseCategoricalCrossentropy(from_logits=True)),
        (*SEQUENCES, weights(ROWS, 7)),
    ),
    "masked, mean of weights": (
        lambda: masked(losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")),
        (*SEQUENCES, weights(ROWS, 7)),
    ),
    "a class ignored": (ignoring_a_class, (random(ROWS, 4, 4, 2), integers(3, ROWS, 4, 4))),
    "added losses": (added_losses, (X, Y)),
    "own compute_loss": (own_loss, (X, Y, W)),
    "one number, a mean": (lambda: scalar_loss(mean_of_all), (X, Y)),
    "one number, a sum": (lambda: scalar_loss(sum_of_all), (X, Y)),
    "norms clipped": (lambda: mlp(optimizer=keras.optimizers.Adam(global_clipnorm=0.05)), (X, Y)),
    "averaged weights": (lambda: mlp(optimizer=keras.optimizers.SGD(clipnorm=0.1, use_ema=True)), (X, Y)),
    "accumulated twice": (lambda: mlp(optimizer=keras.optimizers.SGD(gradient_accumulation_steps=2)), (X, Y)),
    "loss scaled": (half_precision, (X, Y)),
    "compiled": (lambda: mlp(jit_compile=True), (X, Y, W)),
    "eager": (lambda: mlp(run_eagerly=True), (X, Y, W)),
}
