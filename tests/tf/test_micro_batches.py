"""A step over micro-batches gives what the step over the whole batch gives, and takes less memory."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, losses, ops
from micro_batch_cases import CASES, X, Y, mlp

from lowtide.errors import LowtideError
from lowtide.tf.microbatch.cross_row_layers import changes_statistics, micro_batch_notes
from lowtide.tf.microbatch.micro_batches import split_step
from tests.children import last_json, run_python

CHILD = Path(__file__).with_name("micro_batch_child.py")


def train(build, data, count: int | None, traced: str | None = None, steps: int = 3):
    """Return the weights and the optimizer's state after some steps, and the logs of the last.

    The whole batch is trained on eagerly: in a graph, TensorFlow may update a weight before its last reader has run.
    """
    keras.utils.set_random_seed(3)
    model = build()
    step = model.train_step if count is None else split_step(model, count)
    if traced is not None:
        specs = keras.tree.map_structure(lambda leaf: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype), data)
        signature = [specs] if traced == "for any size" else None
        step = tf.function(step, autograph=False, input_signature=signature, jit_compile=model.jit_compile)
    for _ in range(steps):
        logs = step(data)
    state = [variable.numpy() for variable in [*model.variables, *model.optimizer.variables]]
    return state, {name: np.asarray(value) for name, value in logs.items()}


def assert_same(one, other, tolerance=2e-5):
    for state, other_state in zip(one[0], other[0], strict=True):
        scale = np.max(np.abs(state)) if state.size else 0.0
        np.testing.assert_allclose(other_state, state, rtol=tolerance, atol=tolerance * float(scale) + 1e-7)
    assert one[1].keys() == other[1].keys()
    for name, value in one[1].items():
        np.testing.assert_allclose(other[1][name], value, rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_micro_batches_give_what_the_whole_batch_gives(name):
    build, data = CASES[name]
    # float16 rounds a thousand times more coarsely.
    tolerance = 2e-2 if name == "loss scaled" else 2e-5
    traced = "for this size" if name == "compiled" else None
    assert_same(train(build, data, None), train(build, data, 4, traced), tolerance)


@pytest.mark.parametrize("name", ["several outputs", "masked, weighed", "added losses"])
def test_they_also_do_in_a_graph_for_batches_of_any_size(name):
    build, data = CASES[name]
    assert_same(train(build, data, None), train(build, data, 3, "for any size"))


@pytest.mark.parametrize(
    ("name", "traced"), [("several outputs", None), ("masked", "for any size"), ("not reduced", "for any size")]
)
def test_a_batch_may_have_fewer_rows_than_micro_batches(name, traced):
    build, data = CASES[name]
    few = keras.tree.map_structure(lambda leaf: leaf[:3], data)
    assert_same(train(build, few, None), train(build, few, 5, traced))


def test_fit_runs_on_micro_batches():
    """With class weights, an uneven last batch, validation and callbacks."""

    def fitted(count):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(3)])
        loss = losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"], weighted_metrics=["accuracy"])
        if count > 1:
            model.train_step = split_step(model, count)
        x, y = np.array(X), np.arange(10) % 3
        fitted = model.fit(
            x, y, batch_size=4, epochs=2, shuffle=False, class_weight={0: 1.0, 1: 2.0, 2: 0.5}, verbose=0,
            validation_data=(x, y), callbacks=[keras.callbacks.TerminateOnNaN()],
        )  # fmt: skip
        return model.get_weights(), fitted.history

    (whole, history), (split, split_history) = fitted(1), fitted(3)
    for one, other in zip(whole, split, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    assert history.keys() == split_history.keys()
    for name in history:
        np.testing.assert_allclose(split_history[name], history[name], rtol=1e-4, err_msg=name)


def test_one_micro_batch_is_the_step_itself():
    model = mlp()
    assert split_step(model, 1) == model.train_step


@pytest.fixture(scope="module")
def peaks() -> dict[str, int]:
    asked = ["1:plain", "4:plain", "1:compiled", "4:compiled"]
    return dict(zip(asked, last_json(run_python(CHILD, *asked)), strict=True))


@pytest.mark.parametrize("mode", ["plain", "compiled"])
def test_micro_batches_take_less_memory(peaks, mode):
    """A quarter of the rows at a time, and the gradients: about a third."""
    assert peaks[f"4:{mode}"] < 0.55 * peaks[f"1:{mode}"]


class OwnStep(keras.Model):
    def train_step(self, data):
        return super().train_step(data)


class Contrast(losses.Loss):
    """Compares each row with all others."""

    def call(self, y_true, y_pred):
        alike = ops.matmul(y_pred, ops.transpose(y_pred))
        return losses.categorical_crossentropy(ops.eye(ops.shape(y_pred)[0]), alike, from_logits=True)


def root_of_mean(y, prediction):
    return ops.sqrt(ops.mean(ops.square(y - prediction)))


def own_step():
    model = OwnStep(*(lambda x: (x, layers.Dense(3)(x)))(keras.Input((6,))))
    model.compile("sgd", "mse")
    return model


def not_compiled():
    return keras.Sequential([keras.Input((6,)), layers.Dense(3)])


def stateful():
    model = keras.Sequential([keras.Input((5, 6), batch_size=4), layers.GRU(3, stateful=True, name="memory")])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(
    ("build", "count", "message"),
    [
        (own_step, 2, "overrides train_step"),
        (not_compiled, 2, "not compiled"),
        (stateful, 2, "memory"),
        (mlp, 0, "at least one micro-batch"),
        (mlp, 2.5, "at least one micro-batch"),
    ],
)
def test_a_step_that_cannot_be_split_is_an_error(build, count, message):
    with pytest.raises(LowtideError, match=message):
        split_step(build(), count)


@pytest.mark.parametrize("loss", [root_of_mean, Contrast(), losses.Dice(), losses.Circle()])
def test_a_loss_that_is_neither_a_mean_nor_a_sum_is_not_split(loss):
    """Micro-batches would give another loss, so no weight changes."""
    model = mlp(loss)
    before = model.get_weights()
    with pytest.raises(LowtideError, match="no mean or sum over the rows"):
        split_step(model, 2)((X, Y))
    assert all(map(np.array_equal, before, model.get_weights()))


def test_inputs_with_other_rows_are_not_split():
    with pytest.raises(LowtideError, match="same number of rows"):
        split_step(mlp(), 2)((X, Y[:5]))


class Centered(layers.Layer):
    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0, keepdims=True)


def net(*middle):
    model = keras.Sequential([keras.Input((6,)), *middle, layers.Flatten(), layers.Dense(3)])
    model.compile("sgd", "mse")
    return model


class OwnRows(layers.Layer):
    def call(self, inputs):
        heads = ops.transpose(ops.reshape(inputs, (ops.shape(inputs)[0], 2, 3)), (0, 2, 1))
        return ops.softmax(ops.matmul(heads, ops.transpose(heads, (0, 2, 1))))


class Counting(layers.Layer):
    def build(self, shape):
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, inputs):
        self.seen.assign_add(1.0)
        return inputs


def test_layers_that_combine_rows_are_named():
    frozen = layers.BatchNormalization(name="frozen")
    frozen.trainable = False
    assert changes_statistics(net(layers.Dense(6), layers.LayerNormalization(), layers.Dropout(0.1))) == []
    assert changes_statistics(net(layers.BatchNormalization(name="norm"), frozen)) == ["norm"]
    assert changes_statistics(net(OwnRows())) == []
    assert changes_statistics(net(Counting(name="counting"))) == ["counting"]
    assert changes_statistics(net(Centered(name="centered"), OwnRows())) == ["centered"]
    assert changes_statistics(net(layers.Lambda(lambda x: x / ops.max(x), name="by_largest"))) == ["by_largest"]


def test_a_model_that_cannot_be_traced_is_named():
    class Blind(keras.Model):
        def call(self, inputs):
            return inputs

    model = Blind(name="blind")
    model.compile("sgd", "mse")
    assert changes_statistics(model) == ["blind (it cannot be traced)"]


def test_the_notes_say_what_micro_batches_change():
    plain = micro_batch_notes(net(layers.Dense(6)), 4)
    assert len(plain) == 1
    notes = " ".join(micro_batch_notes(net(layers.BatchNormalization(), layers.Dropout(0.2)), 4))
    assert "moving averages 4 times" in notes
    assert "Dropout" in notes
