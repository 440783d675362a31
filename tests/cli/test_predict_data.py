"""lowtide predict of a dataset, as people type it."""

import json

import pytest

pytestmark = pytest.mark.tensorflow

PROGRAM = """
import tensorflow as tf

def build(batch_size=8):
    rows = tf.data.Dataset.range(1000).map(lambda n: tf.zeros((256, 256)) + tf.cast(n, tf.float32))
    return rows.shuffle(400).batch(batch_size).prefetch(2)

data = build()
"""


@pytest.fixture
def program(tmp_path):
    # It greets when it is imported for the first time, which is nothing that is tested.
    import tensorflow  # noqa: F401

    path = tmp_path / "data.py"
    path.write_text(PROGRAM)
    return path


def test_the_memory_of_a_pipeline(lowtide, program):
    answer = lowtide("predict", f"{program}:build", "--batch-size", 16, "--budget", "64MiB")
    assert answer.code == 1
    assert "Shuffle(400)" in answer.out
    assert "does not fit in 64 MiB" in answer.out
    assert "shuffle before the map" in answer.out
    assert lowtide("predict", f"{program}:build", "--budget", "1GiB").code == 0


def test_the_example_is_reported(lowtide, request):
    path = request.config.rootpath / "examples" / "pipeline.py"
    answer = lowtide("predict", f"{path}:build", "--batch-size", 64, "--budget", "1GiB")
    assert answer.code == 1
    assert "Shuffle(2,000)" in answer.out


def test_json_and_files(lowtide, program, tmp_path):
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    answer = lowtide("predict", f"{program}:data", "--json", "--svg", svg, "--html", html)
    assert answer.code == 0
    content = json.loads(answer.out)
    shuffle = next(each for each in content["stages"] if each["kind"] == "Shuffle")
    assert shuffle["held_elements"] == 400
    assert content["fits"] is None
    assert "Shuffle(400)" in svg.read_text()
    assert "Shuffle(400)" in html.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "--batch-size", "4"), "which has its own batches"),
        (("predict", "--save", "never.tide"), "leave --save out"),
        (("plan", "--budget", "1GiB"), "the target is a dataset"),
    ],
)
def test_options_without_a_meaning_for_datasets_are_refused(refused, program, arguments, message):
    verb, *options = arguments
    assert message in refused(verb, f"{program}:data", *options)
