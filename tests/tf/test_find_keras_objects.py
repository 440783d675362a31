"""The layers and optimizers that a hand-written step uses."""

import functools

import keras
import tensorflow as tf

import lowtide as lt
from lowtide.tf.trace.find_keras_objects import find_keras_objects

SHARED = keras.layers.Dense(3, name="shared_globally")


def test_closures_globals_methods_and_containers_are_searched():
    inner, listed = keras.layers.Dense(3, name="inner"), [keras.layers.Dense(3, name="listed")]
    optimizer = keras.optimizers.SGD()

    class Trainer:
        def __init__(self):
            self.model = keras.Sequential([keras.layers.Dense(3, name="nested")])

        def step(self, x, scale):
            return self.model(SHARED(inner(x))) * scale, listed, optimizer

    names = {found.name for found in find_keras_objects(functools.partial(tf.function(Trainer().step), scale=2.0))}
    assert {"inner", "listed", "shared_globally", optimizer.name} <= names
    assert any(name.startswith("sequential") for name in names)


def test_a_function_without_keras_has_none():
    weight = tf.Variable(1.0)
    assert find_keras_objects(lambda x: x * weight) == []


def test_tensors_of_a_hand_written_step_have_layers():
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(256, name="wide"), keras.layers.Dense(1, name="out")]
    )
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x)))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    tide = lt.predict(step, tf.TensorSpec((512, 64)))
    held = {(row.kind, row.layer) for row in tide.top(30)}
    assert ("weights", "wide") in held
    assert ("optimizer", "wide") in held
    assert any(layer == "wide" for kind, layer in held if kind in ("activations", "gradients"))
