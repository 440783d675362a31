"""Bad input to `predict`: an error of one line that says what was given and what to do."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf
from keras import layers

import lowtide as lt


def small_model(compiled: bool = True) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2)], name="small")
    if compiled:
        model.compile("sgd", "mse", jit_compile=False)
    return model


def square(x: tf.Tensor) -> tf.Tensor:
    return x * x


def error_of(function, *arguments, **options) -> str:
    with pytest.raises(lt.LowtideError) as caught:
        function(*arguments, **options)
    line = str(caught.value)
    assert "\n" not in line
    assert "given: " in line
    assert "; " in line, "it should say what to do"
    return line


def test_a_model_that_is_not_compiled():
    line = error_of(lt.predict, small_model(compiled=False), batch_size=8)
    assert "not compiled" in line
    assert "given: small" in line
    assert "model.compile(" in line


class Unbuilt(keras.Model):
    """A model that does not know its inputs before its first call."""

    def __init__(self) -> None:
        super().__init__(name="unbuilt")
        self.dense = layers.Dense(2)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.dense(x)


def test_a_model_that_has_not_seen_an_input():
    model = Unbuilt()
    model.compile("sgd", "mse", jit_compile=False)
    line = error_of(lt.predict, model, batch_size=8)
    assert "given: unbuilt" in line
    assert "specs" in line


@pytest.mark.parametrize("batch_size", [0, -3, 2.5, True, "8"])
def test_an_invalid_batch_size(batch_size):
    line = error_of(lt.predict, small_model(), batch_size=batch_size)
    assert "batch size" in line
    assert f"given: {batch_size!r}" in line


def test_a_batch_that_no_shape_can_have():
    for rows in (1 << 31, 10**30):
        assert "at most 2,147,483,647" in error_of(lt.predict, small_model(), batch_size=rows)


def test_a_shape_that_overflows_is_said_to_be_too_large():
    def step(x):
        return tf.reshape(x, [tf.shape(x)[0] * tf.shape(x)[1]])

    line = error_of(lt.predict, step, tf.TensorSpec((None, 64)), batch_size=100_000_000)
    assert "use a smaller batch" in line


def test_a_model_without_a_batch_size():
    line = error_of(lt.predict, small_model())
    assert "(None, 4)" in line
    assert "batch_size=" in line


@pytest.mark.parametrize("batch_size", [None, 8])
def test_an_unknown_dimension_inside(batch_size):
    line = error_of(lt.predict, square, tf.TensorSpec((8, None)), batch_size=batch_size)
    assert "unknown dimension" in line
    assert "(8, None)" in line


def test_a_step_without_specs():
    line = error_of(lt.predict, square)
    assert "no specs" in line
    assert "tf.TensorSpec" in line


@pytest.mark.parametrize("target", [17, None, [1, 2]])
def test_something_that_is_not_a_step(target):
    line = error_of(lt.predict, target, tf.TensorSpec((8, 4)))
    assert f"given: {type(target).__name__}" in line


def test_a_step_that_raises_while_it_is_traced():
    def step(x: tf.Tensor) -> tf.Tensor:
        raise RuntimeError("the shelf\nis empty")

    line = error_of(lt.predict, step, tf.TensorSpec((8, 4)))
    assert "RuntimeError" in line
    assert "(8, 4) float32" in line
    assert "at test_errors.py:" in line


def test_a_layer_that_raises_names_the_reason_not_the_arguments():
    class Odd(keras.layers.Layer):
        def call(self, x):
            raise ValueError("odd inputs are odd")

    model = keras.Sequential([keras.layers.Dense(4), Odd()])
    model.compile("sgd", "mse")
    line = error_of(lt.predict, model, tf.TensorSpec((8, 4)), tf.TensorSpec((8, 4)))
    assert "ValueError: odd inputs are odd, at test_errors.py:" in line
    assert "ValueError: ValueError" not in line


def test_specs_that_do_not_fit_the_step():
    line = error_of(lt.predict, lambda x: tf.matmul(x, tf.ones((5, 3))), tf.TensorSpec((8, 4)))
    assert "cannot be traced" in line
    assert "(8, 4) float32" in line


@pytest.mark.parametrize("budget", ["8 bananas", "-1GiB", ""])
def test_an_invalid_budget(budget):
    with pytest.raises(lt.LowtideError) as caught:
        lt.max_batch_size(small_model(), budget=budget)
    assert budget in str(caught.value)
    assert "\n" not in str(caught.value)
    tide = lt.predict(small_model(), batch_size=8)
    with pytest.raises(lt.LowtideError):
        tide.fits(budget)
