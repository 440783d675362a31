"""Targets as a user writes them, right and wrong."""

import sys

import pytest

pytestmark = pytest.mark.tensorflow

SCRIPT = """
import keras
import tensorflow as tf
from helper import UNITS

def make(compiled=True):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(UNITS)])
    if compiled:
        model.compile("adam", "mse")
    return model

model = make()
uncompiled = make(False)
number = 3

def build(): return make()
def build_uncompiled(): return make(False)
def build_nothing(): pass
def build_step(): return (lambda x: x * 2), tf.TensorSpec((None, 4))
def build_fixed(): return (lambda x: x * 2), tf.TensorSpec((8, 4))
def build_for_batch(batch_size=7): return (lambda x: x * 2), tf.TensorSpec((batch_size, 4))
def build_needs_batch(batch_size): return (lambda x: x * 2), tf.TensorSpec((batch_size, 4))
def build_from_array(): return (lambda x: x["a"] * 2), {"a": tf.zeros((8, 4)).numpy()}
def build_without_shape(): return (lambda x: x * 2), tf.TensorSpec(None)
def build_with_number(): return (lambda x: x * 2), 3
def build_without_specs(): return ((lambda x: x * 2),)
def build_fails(): raise ValueError("no\\nluck")
def train_step(x, y): return x

@tf.function(input_signature=[tf.TensorSpec((None, 4))])
def signed(x): return x * 2

@tf.function
def unsigned(x): return x * 2
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "helper.py").write_text("UNITS = 3\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    yield path
    # The next test has other files of the same names.
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def resolve(name, batch_size=None):
    from lowtide.tf.trace.target import resolve_target

    return resolve_target(name, batch_size)


@pytest.mark.parametrize("place", ["train.py", "./train.py", "train"])
@pytest.mark.parametrize("name", ["model", "build"])
def test_a_model_or_a_function_that_returns_one(script, place, name):
    target = resolve(f"{place}:{name}", 16)
    assert target.program.compiled
    assert (target.specs, target.batch_size, target.label) == ((), 16, f"{place}:{name}")
    assert target.with_open_batch() is target


def test_a_step_with_an_open_batch(script):
    target = resolve("train.py:build_step", 16)
    assert [tuple(spec.shape) for spec in target.specs] == [(None, 4)]
    assert target.batch_size == 16
    assert target.with_open_batch() is target


def test_a_step_with_fixed_specs_has_one_batch_size(script):
    target = resolve("train.py:build_fixed")
    assert target.batch_size is None
    assert target.with_open_batch() is None


@pytest.mark.parametrize(("batch_size", "rows"), [(None, 7), (16, 16)])
def test_a_builder_is_given_the_batch_size(script, batch_size, rows):
    target = resolve("train.py:build_for_batch", batch_size)
    assert target.specs[0].shape[0] == rows
    assert target.batch_size is None
    assert target.with_open_batch().specs[0].shape[0] is None


def test_an_array_is_replaced_by_its_shape_and_dtype(script):
    import tensorflow as tf

    assert resolve("train.py:build_from_array").specs == ({"a": tf.TensorSpec((8, 4), tf.float32)},)


def test_a_function_with_a_signature_is_a_step(script):
    assert tuple(resolve("train.py:signed", 2).specs[0].shape) == (None, 4)


def test_a_model_of_keras_applications_says_what_was_chosen():
    target = resolve("keras:MobileNetV3Small", 2)
    assert target.program.compiled
    assert target.label == "keras:MobileNetV3Small"
    assert "224×224×3" in target.notes[0]
    assert "Adam" in target.notes[0]


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("train.py", ["train.py", "file.py:name"]),
        (":build", ["file.py:name"]),
        ("tran.py:build", ["tran.py", "did you mean train.py"]),
        ("nowhere/else.py:build", ["nowhere/else.py", "does not exist"]),
        ("no.such.module:build", ["no.such.module"]),
        ("train.py:biuld", ["did you mean build?"]),
        ("train.py:uncompiled", ["not compiled", "model.compile"]),
        ("train.py:build_uncompiled", ["not compiled", "model.compile"]),
        ("train.py:number", ["a int", "(step, *specs)"]),
        ("train.py:build_nothing", ["returned None", "(step, *specs)"]),
        ("train.py:build_without_specs", ["without the specs", "tf.TensorSpec"]),
        ("train.py:build_with_number", ["without the specs", "tf.TensorSpec"]),
        ("train.py:build_without_shape", ["no shape"]),
        ("train.py:build_fails", ["ValueError: no luck", "train.py:27"]),
        ("train.py:train_step", ["x, y"]),
        ("train.py:unsigned", ["input_signature"]),
        ("train.py:build_step", ["--batch-size"]),
        ("train.py:build_needs_batch", ["--batch-size"]),
        ("keras:ResNet5", ["did you mean ResNet50?"]),
        ("keras:zzz", ["keras:zzz"]),
    ],
)
def test_a_wrong_target_is_one_line_that_says_what_to_do(script, refused, target, parts):
    line = refused("predict", target)
    for part in parts:
        assert part in line


def test_a_batch_size_for_fixed_shapes_is_refused(script, refused):
    assert "fixed shapes" in refused("predict", "train.py:build_fixed", "--batch-size", "4")


@pytest.mark.parametrize("size", ["0", "-4"])
def test_a_batch_needs_a_row(refused, size):
    assert f"--batch-size {size}" in refused("predict", "train.py:build", "--batch-size", size)


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("import keras\n1 / 0\n", ["ZeroDivisionError: division by zero", "broken.py:2"]),
        ("def f(:\n", ["SyntaxError", "broken.py:1"]),
        ("import sys\nsys.exit(3)\n", ["SystemExit: 3", "broken.py:2"]),
        ("import json\njson.loads('{')\n", ["JSONDecodeError", "broken.py:2"]),
        ("import not_there_at_all\n", ["not_there_at_all", "broken.py:1"]),
    ],
)
def test_a_file_that_does_not_import_names_the_line_of_user_code(script, refused, code, parts):
    script.with_name("broken.py").write_text(code)
    line = refused("predict", "broken.py:build")
    for part in parts:
        assert part in line


def test_a_file_named_like_a_library_does_not_replace_it(script):
    import keras

    script.with_name("keras.py").write_text(
        SCRIPT.replace("import keras\n", "import sys; keras = sys.modules['keras']\n")
    )
    assert resolve("keras.py:model", 2).program.compiled
    assert sys.modules["keras"] is keras


def test_a_saved_model_is_a_target(tmp_path, lowtide, refused):
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.save(tmp_path / "plain.keras")
    model.compile("sgd", "mse")
    model.save(tmp_path / "small.keras")
    answer = lowtide("predict", tmp_path / "small.keras", "--batch-size", 8, "--json")
    assert answer.code == 0
    assert '"batch_size": 8' in answer.out
    assert "not compiled" in refused("predict", tmp_path / "plain.keras", "--batch-size", 8)
    assert "did you mean" in refused("predict", tmp_path / "smal.keras")
    (tmp_path / "broken.keras").write_bytes(b"PK")
    assert "cannot be loaded" in refused("predict", tmp_path / "broken.keras")


def test_a_command_that_does_not_exist_gets_a_suggestion(refused):
    assert refused("predct") == "error: no such command (given: predct); did you mean predict?"
    assert "the commands are predict, plan," in refused("xyzzy")


def test_the_help_shows_whole_summaries(lowtide):
    answer = lowtide("--help")
    assert answer.code == 0
    assert "..." not in answer.out.partition("Commands:")[2]
