"""lowtide predict, from the command to the numbers, on models that take seconds."""

import json

import pytest

import lowtide as package

pytestmark = pytest.mark.tensorflow

SCRIPT = """
import keras

print("this is the script speaking")

def build():
    model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(1024, "relu"), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
"""
WEIGHTS = (512 * 1024 + 1024 + 1024 * 10 + 10) * 4


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "mlp.py"
    path.write_text(SCRIPT)
    return path


def test_a_prediction_in_json_with_the_largest_batch(lowtide, script, tmp_path):
    saved = tmp_path / "mlp.tide"
    answer = lowtide(
        "predict", f"{script}:build", "--batch-size", "256", "--budget", "64MiB", "--json", "--save", saved
    )
    data = json.loads(answer.out)
    assert answer.code == (0 if data["budget"]["fits"] else 1)
    assert data["batch_size"] == 256
    assert data["target"] == f"{script}:build"
    assert data["breakdown"]["weights"] >= WEIGHTS
    assert data["breakdown"]["optimizer"] >= 2 * WEIGHTS
    assert data["peak_bytes"] > 3 * WEIGHTS + 256 * 1024 * 4
    assert data["safe_bytes"] >= data["peak_bytes"]
    assert data["safe_bytes"] <= 64 * 2**20
    # 256 rows fit in 64 MiB, and so do more, up to a limit that the activations set.
    assert 256 < data["budget"]["largest_batch_size"] < 64 * 2**20 // (1024 * 4)
    # The same again, from the file.
    again = json.loads(lowtide("explain", saved, "--json").out)
    for key in ("peak_bytes", "safe_bytes", "breakdown", "top", "curve", "target"):
        assert again[key] == data[key]


def test_a_step_that_does_not_fit_exits_1_and_says_so(lowtide, script):
    answer = lowtide("predict", f"{script}:build", "--batch-size", "256", "--budget", "4MiB")
    assert answer.code == 1
    assert "✗ does not fit in 4 MiB" in answer.out
    assert "not even a batch of 1" in answer.out
    assert "this is the script speaking" not in answer.out


def test_python_and_the_command_agree(lowtide, script):
    import keras

    namespace: dict = {}
    exec(compile(SCRIPT, str(script), "exec"), namespace)
    tide = package.predict(namespace["build"](), batch_size=64)
    data = json.loads(lowtide("predict", f"{script}:build", "--batch-size", "64", "--json").out)
    assert data["peak_bytes"] == tide.peak_bytes
    assert isinstance(tide, package.Tide)
    keras.backend.clear_session()


@pytest.mark.parametrize("name", ["transformer", "custom_loop", "gan", "resnet"])
def test_the_examples_are_predicted(lowtide, name, request):
    path = request.config.rootpath / "examples" / f"{name}.py"
    answer = lowtide("predict", f"{path}:build", "--batch-size", "2", "--json", "--top", "3")
    assert answer.code == 0, answer.err
    data = json.loads(answer.out)
    assert data["breakdown"]["weights"] > 0
    assert data["breakdown"]["optimizer"] > 0
    assert data["peak_bytes"] > data["breakdown"]["weights"] + data["breakdown"]["optimizer"]
    assert len(data["top"]) == 3


def test_the_graph_of_another_function_is_not_mistaken_for_the_step():
    import tensorflow as tf
    from tensorflow.python.eager import context

    weight = tf.Variable(tf.zeros([64, 64]))

    @tf.function
    def longer(x):
        for _ in range(200):
            x = tf.sin(x) + 1.0
        return x

    runtime = context.context()
    runtime.enable_run_metadata()
    try:
        longer(tf.ones([3]))
        tide = package.predict(lambda x: tf.matmul(x, weight), tf.TensorSpec([32, 64]))
    finally:
        runtime.disable_run_metadata()
    assert tide.breakdown()["weights"] == 64 * 64 * 4
