"""The digest of a program: the same for the same program, another for whatever may be traced into another graph."""

from __future__ import annotations

import functools
import io
import itertools
import math
import types

import keras
import numpy as np
import pytest
import step_cases
import tensorflow as tf
from keras import layers

from lowtide.tf.program_key import program_digest

SPEC = tf.TensorSpec((None, 8))


def digest_of(build, *arguments, **named) -> str | None:
    """Return the digest of a program that is built in a session like new."""
    keras.backend.clear_session()
    target, *specs = build(*arguments, **named)
    return program_digest(target, *specs)


def model(units=4, activation="relu", rate=0.1, loss="mse", optimizer="adam", policy=None, shape=(8,)):
    inputs = keras.Input(shape)
    hidden = layers.Dense(units, activation=activation, dtype=policy)(inputs)
    made = keras.Model(inputs, layers.Dense(2)(layers.Dropout(rate)(hidden)))
    made.compile(optimizer, loss)
    return (made,)


CHANGES = [
    {"units": 5},
    {"activation": "gelu"},
    {"activation": lambda x: x * 2},
    {"rate": 0.2},
    {"loss": "mae"},
    {"optimizer": "sgd"},
    {"policy": "mixed_bfloat16"},
    {"shape": (9,)},
]


@pytest.mark.parametrize("name", ["mlp", "conv", "attention", "gru", "gan", "nested_function", "while_loop"])
def test_the_same_program_has_the_same_digest(name):
    def build():
        case = step_cases.CASES[name]()
        return (case.target,)

    first, second = digest_of(build), digest_of(build)
    assert first is not None
    if name not in ("gan", "nested_function", "while_loop"):
        # Variables of TensorFlow are numbered on and on in a process.
        assert first == second


@pytest.mark.parametrize(
    "change", CHANGES, ids=["units", "activation", "lambda", "rate", "loss", "optimizer", "policy", "shape"]
)
def test_another_argument_of_a_layer_is_another_program(change):
    assert digest_of(model) == digest_of(model)
    assert digest_of(model, **change) != digest_of(model)


def test_specs_are_part_of_the_program():
    (made,) = model()
    assert program_digest(made, SPEC) != program_digest(made, tf.TensorSpec((None, 9)))
    assert program_digest(made, SPEC) == program_digest(made, tf.TensorSpec((None, 8)))


def step_with(value, helper=math.sqrt, default=None):
    def step(x, more=default):
        return tf.reduce_sum(x) * value * helper(4.0)

    return step, SPEC


VALUES = [2, 2.0, "2", None, [2, 3], {"a": 2}, {"a": 3}, (2,), np.arange(3), np.arange(4), tf.constant([1]), {1, 2}]


def test_what_a_function_encloses_is_part_of_the_program():
    digests = [digest_of(step_with, value) for value in VALUES]
    assert None not in digests
    assert len(set(digests)) == len(VALUES)
    assert digests == [digest_of(step_with, value) for value in VALUES]
    others = [
        digest_of(step_with, 2, math.sin),
        digest_of(step_with, 2, functools.partial(max, 3.0)),
        digest_of(step_with, 2, functools.partial(max, 5.0)),
        digest_of(step_with, 2, default=1),
        digest_of(lambda: (tf.function(step_with(2)[0]), SPEC)),
        digest_of(lambda: (tf.function(step_with(2)[0], jit_compile=True), SPEC)),
    ]
    assert len({*others, *digests}) == len(others) + len(digests)


def module_of(code: str) -> types.ModuleType:
    module = types.ModuleType("program")
    exec(compile(code, "/nowhere/program.py", "exec"), vars(module))
    return module


CODE = """
import tensorflow as tf
UNITS = 4
class Scale:
    factor = 2
    def __init__(self): self.offset = 1
    def __call__(self, x): return x * self.factor + self.offset
scale = Scale()
def helper(x): return tf.tanh(x)
def step(x): return tf.reduce_sum(scale(helper(x))) * UNITS
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("UNITS = 4", "UNITS = 5"),
        ("tf.tanh", "tf.nn.relu"),
        ("factor = 2", "factor = 3"),
        ("offset = 1", "offset = 2"),
        ("x * self.factor", "x / self.factor"),
        ("tf.reduce_sum", "tf.reduce_mean"),
        ("import tensorflow", "\nimport tensorflow"),
    ],
)
def test_code_and_globals_that_a_function_reaches_are_part_of_the_program(old, new):
    assert old in CODE
    first, same, other = (module_of(code).step for code in (CODE, CODE, CODE.replace(old, new)))
    assert program_digest(first, SPEC) == program_digest(same, SPEC) is not None
    assert program_digest(other, SPEC) != program_digest(first, SPEC)


def test_global_settings_are_part_of_the_program():
    before = digest_of(model)
    keras.config.set_floatx("float64")
    try:
        assert digest_of(model) != before
    finally:
        keras.config.set_floatx("float32")
    assert digest_of(model) == before


@pytest.mark.parametrize("unseen", [itertools.count(), (each for each in "ab"), np.random.default_rng(), io.StringIO()])
def test_a_program_with_something_that_cannot_be_seen_has_no_digest(unseen):
    assert digest_of(step_with, unseen) is None
