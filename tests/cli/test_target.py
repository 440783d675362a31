"""Targets as a user writes them, right and wrong."""

import json
import sys
import zipfile

import pytest

from lowtide.errors import LowtideError

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

def build_from_dataset(): return (lambda x: x * 2), tf.data.Dataset.from_tensors(tf.zeros(4)).batch(8)
def build_model_from_dataset():
    rows = tf.data.Dataset.from_tensors((tf.zeros(4), tf.zeros(UNITS)))
    return make(), rows.batch(8)
def build_with_rate(): return (lambda x, rate: x * rate), tf.TensorSpec((None, 4)), 0.1
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "helper.py").write_text("UNITS = 3\n")
    (tmp_path / "notes.txt").write_text("build")
    (tmp_path / "folder").mkdir()
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


def test_a_dataset_stands_for_its_elements(script):
    import tensorflow as tf

    x, y = (tf.TensorSpec((8, size), tf.float32) for size in (4, 3))
    assert resolve("train.py:build_from_dataset").specs == (x,)
    assert resolve("train.py:build_model_from_dataset").specs == (x, y)


def test_values_of_python_stay_arguments_of_the_step(script):
    target = resolve("train.py:build_with_rate", 4)
    assert (tuple(target.specs[0].shape), target.specs[1]) == ((None, 4), 0.1)
    assert target.has_open_batch


def test_a_model_file_with_unknown_layers_names_them(script):
    import keras

    class Own(keras.layers.Layer):
        def call(self, x):
            return x

    model = keras.Sequential([keras.Input((4,)), Own()])
    model.compile("sgd", "mse")
    model.save("own.keras")
    with pytest.raises(LowtideError, match=r"cannot be loaded: Could not locate class 'Own'.*name a function"):
        resolve("own.keras")


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
        ("train.py", ["no name after the file", "train.py:NAME", "build, build_uncompiled"]),
        ("tran.py", ["does not exist", "did you mean train.py"]),
        ("notes.txt:build", ["not Python", "file.py:name"]),
        ("train.ipynb:build", ["notebook", "jupyter nbconvert --to script"]),
        ("folder", ["is a folder", "file.py:name"]),
        ("folder:build", ["in a folder", "file.py:name"]),
        ("./folder:build", ["in a folder", "file.py:name"]),
        (":build", ["file.py:name"]),
        ("tran.py:build", ["tran.py", "did you mean train.py"]),
        ("nowhere/else.py:build", ["nowhere/else.py", "does not exist"]),
        ("no.such.module:build", ["no.such.module"]),
        ("train.py:biuld", ["did you mean build?"]),
        ("train.py:uncompiled", ["not compiled", "model.compile"]),
        ("train.py:build_uncompiled", ["not compiled", "model.compile"]),
        ("train.py:number", ["an int", "(step, *specs)"]),
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


@pytest.mark.parametrize(
    ("arguments", "parts", "absent"),
    [
        (["train.py:model"], ["batch size is not known", "add --batch-size"], "batch_size="),
        (["train.py:any_size", "--batch-size", "4"], ["returns (model, x_spec, y_spec)"], "batch_size="),
        (["train.py:unbuilt", "--batch-size", "4"], ["returns (model, x_spec, y_spec)"], "batch_size="),
        (["train.py:model", "--batch-size", "3000000000"], ["3,000,000,000 rows", "at most"], "traced"),
        (["train.py:model", "--batch-size", "8", "--budget", "1.5"], ["must be whole", "1.5GiB"], "1 B"),
    ],
)
def test_errors_name_the_options_of_the_command_line(script, refused, arguments, parts, absent):
    script.write_text(
        SCRIPT
        + """
def any_size():
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model
def unbuilt():
    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model
"""
    )
    line = refused("predict", *arguments)
    for part in parts:
        assert part in line
    assert absent not in line


def test_huge_batches_are_answered(script, lowtide):
    # Beyond the address space of a machine: 200,000,000 rows of 1 MiB.
    script.write_text(
        """
import tensorflow as tf
def build():
    w = tf.Variable(tf.ones((512, 512)))
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.relu(x @ w) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss
    return step, tf.TensorSpec((None, 512, 512))
"""
    )
    peaks = []
    for rows in (200_000, 200_000_000):
        answer = lowtide("predict", "train.py:build", "--batch-size", rows, "--json")
        assert answer.code == 0
        peaks.append(json.loads(answer.out)["peak_bytes"])
    # What the step holds are a few tensors of the size of its input.
    assert peaks[0] > 200_000 << 20
    assert peaks[1] == pytest.approx(1000 * peaks[0], rel=0.2)


def test_a_model_that_runs_eagerly_is_noted(script, lowtide):
    script.write_text(SCRIPT.replace('model.compile("adam", "mse")', 'model.compile("adam", "mse", run_eagerly=True)'))
    answer = lowtide("predict", "train.py:build", "--batch-size", 4, "--json")
    assert "run_eagerly=True" in json.loads(answer.out)["notes"][0]


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
    for loss in ("mse", keras.losses.MeanSquaredError()):
        model.compile("sgd", loss, metrics=["mae"])
        model.save(tmp_path / "small.h5")
        again = lowtide("predict", tmp_path / "small.h5", "--batch-size", 8, "--json")
        assert (again.code, '"batch_size": 8' in again.out) == (0, True)
    assert "call model.compile(optimizer=..., loss=...) and save it again" in refused(
        "predict", tmp_path / "plain.keras"
    )
    assert "write small.keras alone" in refused("predict", "small.keras:model")
    model.save_weights(tmp_path / "only.weights.h5")
    assert "builds the model, loads its weights and compiles it" in refused("predict", tmp_path / "only.weights.h5")
    model.export(tmp_path / "exported")
    assert "SavedModel, which has no training step" in refused("predict", tmp_path / "exported")
    (tmp_path / "broken.keras").write_bytes(b"PK")
    assert "no .keras file, or it is damaged" in refused("predict", tmp_path / "broken.keras")
    with zipfile.ZipFile(tmp_path / "other.keras", "w") as archive:
        archive.writestr("notes.txt", "nothing")
    assert "cannot be loaded" in refused("predict", tmp_path / "other.keras")


def test_a_command_that_does_not_exist_gets_a_suggestion(refused):
    assert refused("predct") == "error: no such command (given: predct); did you mean predict?"
    assert "the commands are predict, plan," in refused("xyzzy")


def test_the_help_shows_whole_summaries(lowtide):
    answer = lowtide("--help")
    assert answer.code == 0
    assert "..." not in answer.out.partition("Commands:")[2]
