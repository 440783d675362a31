"""The line of user code for each node, for the ways in which a step can be written.

The file lies in a folder called lowtide, as a checkout of this project does: only the real packages are left out.
These tests call the tracer from a file of their own, as the installed script does; that line must never show.
"""

import importlib.util

import keras
import pytest
import tensorflow as tf

import lowtide
from lowtide.tf.trace.simulated_step import SimulatedStep
from lowtide.tf.trace.source_lines import make_source_finder
from lowtide.tf.trace.step_cache import find_step

USER_FILE = """
import keras
import tensorflow as tf


def functional():
    inputs = keras.Input((8,))
    hidden = keras.layers.Dense(16, activation="relu", name="hidden")(inputs)
    return compiled(keras.Model(inputs, Scaled()(keras.layers.Dense(1, name="out")(hidden))))


class Scaled(keras.layers.Layer):
    def call(self, x):
        return tf.math.softplus(x)  # line: custom layer


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(16, name="first")
        self.second = keras.layers.Dense(1, name="second")

    def call(self, x):
        x = tf.math.tanh(self.first(x))  # line: first
        return self.second(x)  # line: second


def compiled(model):
    model.compile("adam", "mse")
    return model


weights = tf.Variable(tf.ones((8, 8)))


@tf.function
def inner(x):
    return tf.exp(x)  # line: inner


def step(x):
    with tf.GradientTape() as tape:
        x = x @ weights  # line: product
        for _ in tf.range(5):  # line: range
            x = tf.sin(x)  # line: loop
        loss = tf.reduce_sum(inner(x))  # line: loss
    weights.assign_sub(tape.gradient(loss, weights))  # line: gradient
    return loss
"""


def line(mark: str) -> str:
    numbers = [number for number, text in enumerate(USER_FILE.splitlines(), 1) if text.endswith(f"# line: {mark}")]
    return f"train.py:{numbers[0]}"


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkout") / "lowtide" / "keras" / "train.py"
    path.parent.mkdir(parents=True)
    path.write_text(USER_FILE)
    specification = importlib.util.spec_from_file_location("train", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def lines_of(target, *specs) -> dict[str, str | None]:
    """Return the lines of the executed nodes, by their names."""
    step = find_step(target, specs, 4, None)
    assert isinstance(step, SimulatedStep)
    find = make_source_finder(step.program.concrete)
    return {name: find(name) for name in step.program.graph.names}


def only(lines, *parts: str) -> set[str | None]:
    """Return the lines of the nodes whose name contains all `parts`."""
    found = {source for name, source in lines.items() if all(part in name for part in parts)}
    assert found, (parts, sorted(lines))
    return found


def test_layers_of_a_functional_model_have_no_line_but_custom_layers_do(user):
    lines = lines_of(user.functional())
    assert only(lines, "hidden_1/") == {None}
    assert only(lines, "/Softplus") == {line("custom layer")}
    assert set(lines.values()) == {None, line("custom layer")}


def test_a_subclassed_model_shows_the_lines_of_its_call(user):
    specs = tf.TensorSpec((None, 8)), tf.TensorSpec((None, 1))
    lines = lines_of(user.compiled(user.Own()), *specs)
    assert only(lines, "own_1/first_1/MatMul") == {line("first")}
    assert only(lines, "own_1/Tanh") == {line("first")}
    assert only(lines, "own_1/second_1/MatMul") == {line("second")}
    assert set(lines.values()) == {None, line("first"), line("second")}


def test_a_custom_step_shows_its_lines_through_loops_and_functions(user):
    lines = lines_of(user.step, tf.TensorSpec((None, 8)))
    assert {lines["matmul"], lines["gradient_tape/matmul/MatMul"]} == {line("product")}
    assert lines["x"] is None
    assert only(lines, "while/body/", "/Sin") == {line("loop")}
    assert only(lines, "PartitionedCall/Exp") == {line("inner")}
    marks = ("product", "range", "loop", "inner", "loss", "gradient")
    assert {source for source in lines.values() if source} <= {line(mark) for mark in marks}


def test_the_report_shows_lines(user):
    tide = lowtide.predict(user.step, tf.TensorSpec((None, 8)), batch_size=1024)
    assert {source for source in tide.buffers.source if source}
    assert all(source is None or source.startswith("train.py:") for source in tide.buffers.source)


def layer_of(tide, *parts: str) -> set[str | None]:
    rows = zip(tide.buffers.name, tide.buffers.layer, strict=True)
    found = {layer for name, layer in rows if all(part in name for part in parts)}
    assert found, (parts, tide.buffers.name)
    return found


def test_layers_with_numbered_names_are_distinguished():
    """TensorFlow numbers scopes too: the ops of dense are in dense_1, those of dense_1 in dense_1_2."""
    keras.utils.clear_session()
    tower = keras.Sequential([keras.layers.Dense(12), keras.layers.Dense(11)], name="tower")
    inputs = keras.Input((8,))
    model = keras.Model(inputs, keras.layers.Dense(10)(tower(inputs)))
    model.compile("adam", "mse")
    tide = lowtide.predict(model, batch_size=4)
    rows = zip(tide.buffers.layer, tide.buffers.kind, tide.buffers.shape, strict=True)
    by_width = {}
    for layer, _, shape in rows:
        if layer is not None and shape and len(shape) == 2 and shape[0] != 4:
            by_width.setdefault(shape, set()).add(layer)
    # Kernels, their slots and their gradients all belong to the layer of that width.
    assert by_width == {(8, 12): {"dense"}, (12, 11): {"dense_1"}, (11, 10): {"dense_2"}}
    assert layer_of(tide, "adam/tower_dense_kernel_momentum") == {"dense"}
    assert layer_of(tide, "adam/tower_dense_1_bias_velocity") == {"dense_1"}
    assert layer_of(tide, "adam/dense_2_bias_velocity") == {"dense_2"}
    assert layer_of(tide, "adam/iteration") == {None}
