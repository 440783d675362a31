"""Real scripts under lowtide run that hold whole data: with and without a training step, and without TensorFlow."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.children import run_python

SCRIPTS = {
    # As in many articles: no step at all, and everything is local to a function.
    "copies": """
import numpy as np, tensorflow as tf
def main():
    data = np.ones((80, 256, 1024), np.float32)
    held = tf.constant(data)
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(8)
    for batch in dataset:
        tf.reduce_sum(batch)
    # Long enough for a look on a busy machine.
    import time
    time.sleep(3)
main()
""",
    "trains": """
import numpy as np, tensorflow as tf
data = np.ones((64, 256, 1024), np.float32)
held = tf.constant(data)
table = tf.fill((8, 256, 1024), 0.5)
weights = tf.Variable(tf.fill((1024, 1024), 0.1))
@tf.function
def step(index):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.matmul(tf.gather(table, index), weights) ** 2)
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss
for number in range(15):
    step(tf.constant(number % 8))
""",
    # Data of a few KiB, beside a step of a few KiB.
    "small": """
import tensorflow as tf
rows = tf.random.normal((1000, 10)) + 1.0
weights = tf.Variable(tf.fill((10, 20), 0.1))
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss
for number in range(15):
    step(rows[32 * number : 32 * (number + 1)])
""",
    "imports": "import tensorflow",
    "neither": "print('no TensorFlow')",
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held")

    def run(name):
        path = folder / f"{name}.py"
        path.write_text(SCRIPTS[name])
        return json.loads(run_python("-m", "lowtide", "run", "--json", path).stdout)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(SCRIPTS, pool.map(run, SCRIPTS), strict=True))


def test_a_script_without_a_step_gets_a_report_of_what_held_its_memory(reports):
    report = reports["copies"]
    assert report["run"]["exit_code"] == 0
    assert report["run"]["problem"] is None
    assert report["recording"]["step"] is None
    # The constant and the slices are copies of the array, and the iterator makes another one.
    assert report["peak_bytes"] >= 3 * (80 << 20)
    sources = {tensor["name"]: tensor["source"] for tensor in report["top"]}
    assert sources["local `held` of main"] == "copies.py:5"
    assert {"MakeIterator"} <= {tensor["op"] for tensor in report["top"]}
    process = report["recording"]["process"]
    assert process["resident_bytes"] > 4 * (80 << 20)
    (array,) = process["arrays"]
    assert (array["name"], array["source"], array["bytes"]) == ("local `data` of main", "copies.py:4", 80 << 20)
    assert any("lt.feed.arrays" in line for line in report["advice"])


def test_data_is_distinguished_from_the_step_in_a_prediction(reports):
    report = reports["trains"]
    assert report["recording"]["step"] is not None
    (data, *_) = report["held_outside"]
    assert data["name"] == "global `held` of trains.py"
    assert data["source"] == "trains.py:4"
    assert data["shape"] == [64, 256, 1024]
    # The function uses this one, so it belongs to the step, and the prediction has it too.
    (table,) = [tensor for tensor in report["top"] if tensor["name"] == "global `table` of trains.py"]
    assert table["kind"] == "constants"
    assert report["step_bytes"] < report["peak_bytes"] - (64 << 20)
    assert abs(report["predicted"]["gap"]) < 0.25
    assert any("lt.feed.arrays" in line for line in report["advice"])


def test_small_data_of_a_small_step_has_a_name(reports):
    data = reports["small"]["held_outside"][0]
    assert (data["name"], data["source"]) == ("global `rows` of small.py", "small.py:3")
    assert data["requested_bytes"] == 1000 * 10 * 4


def test_a_script_that_runs_nothing_of_tensorflow_gets_a_report_that_says_so(reports):
    assert reports["imports"]["run"]["problem"].endswith("but TensorFlow allocated no memory")
    assert reports["neither"]["run"]["problem"].endswith("did not import TensorFlow")
    assert {report["run"]["exit_code"] for report in reports.values()} == {0}
