"""lowtide doctor --live: a pipeline, a step written by hand, and a model with its dataset."""

import json

import pytest

from lowtide.cli.doctor_live import examine

pytestmark = pytest.mark.tensorflow

PROGRAM = """
import keras
import numpy as np
import tensorflow as tf

def data(batch_size=8):
    rows = tf.data.Dataset.range(1000).map(lambda n: (tf.zeros((64, 64)) + tf.cast(n, tf.float32), n))
    return rows.shuffle(400).batch(batch_size).prefetch(2)

def small():
    return tf.data.Dataset.range(1000).batch(8)

def both(batch_size=8):
    model = keras.Sequential([keras.Input((64, 64)), keras.layers.Flatten(), keras.layers.Dense(8)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, data(batch_size)
"""


@pytest.fixture
def program(tmp_path):
    # It greets when it is imported for the first time, which is nothing that is tested.
    import tensorflow  # noqa: F401

    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def test_a_pipeline(program, capfd):
    assert examine(f"{program}:data") == 1
    out = capfd.readouterr().out
    assert "→ shuffle before the map" in out
    assert "of the process" in out
    assert "changes results: examples are mixed less" in out


def test_a_pipeline_without_remedies(program, capfd):
    assert examine(f"{program}:small") == 0
    assert "no change is known" in capfd.readouterr().out
    assert examine(f"{program}:small", budget=1 << 20) == 1
    assert "does not fit in 1 MiB" in capfd.readouterr().out


def test_a_model_with_its_dataset_as_json(program, capfd):
    assert examine(f"{program}:both", 16, 1 << 30, as_json=True) == 1
    data = json.loads(capfd.readouterr().out)
    assert data["batch_size"] == 16
    assert data["budget"] == {"bytes": 1 << 30, "fits": True}
    pipeline = next(remedy for remedy in data["remedies"] if remedy["kind"] == "pipeline")
    assert (pipeline["of"], pipeline["fits"]) == ("process", None)
    # The shuffle holds images of 16 KiB, and numbers before the map.
    assert pipeline["saves_bytes"] > 400 * 64 * 64 * 4 * 0.9
