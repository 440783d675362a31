"""A model in half precision and back: what it computes in, what it keeps, and that it trains, saves and loads."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

from lowtide.errors import LowtideError
from lowtide.tf.plan.precision import last_layers, with_precision
from tests.children import last_json, run_python

CHILD = Path(__file__).with_name("precision_child.py")


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, dict]:
    path = tmp_path_factory.mktemp("precision") / "model.keras"
    return last_json(run_python("-W", "error::UserWarning", CHILD, path, "bfloat16", "mixed_float16"))


@pytest.mark.parametrize(("asked", "dtype"), [("bfloat16", "bfloat16"), ("mixed_float16", "float16")])
def test_a_model_trains_in_half_precision_and_back(reports, asked, dtype):
    report = reports[asked]
    scaled = "LossScaleOptimizer" if dtype == "float16" else "Adam"

    assert report["weights kept"]
    assert report["iterations"] == [2, 2]
    assert report["variables"] == ["float32"]
    assert report["computes in"] == {"first": dtype, "inner": dtype, "last": "float32"}
    assert report["inside"] == [dtype, dtype]
    assert "float32" in report["output"]
    # Halves differ, or nothing has changed, but not by much.
    assert 0 < report["off by"] < 0.05
    assert report["scaled"] == scaled
    assert report["losses"][1] < report["losses"][0]
    assert report["loaded"] == [0.0, dtype, scaled]
    assert report["loaded state"] == [[14, 14], True]
    assert report["restored"] == ["float32", "Adam"]
    assert report["loss after"] < report["losses"][0]


def small(*last) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(5, activation="relu", name="first"), *last])
    model.compile(keras.optimizers.SGD(loss_scale_factor=8.0), "mse")
    return model


def test_only_an_activation_at_the_end_stays_in_float32():
    assert last_layers(small(layers.Dense(3, name="logits"))) == []
    assert [layer.name for layer in last_layers(small(layers.Dense(3, activation="softmax", name="end")))] == ["end"]
    apart = small(layers.Dense(3), layers.Activation("softmax", name="apart"))
    assert [layer.name for layer in last_layers(apart)] == ["apart"]
    assert [layer.name for layer in last_layers(small(layers.Dense(3), layers.Softmax(name="softmax")))] == ["softmax"]
    inner = keras.Sequential([keras.Input((5,)), layers.Dense(2, activation="sigmoid", name="inside")])
    assert [layer.name for layer in last_layers(small(inner))] == ["inside"]


def test_layers_with_a_policy_of_their_own_keep_it():
    model = small(layers.Dense(3, dtype="float64", name="fine"))
    with with_precision(model, "float16"):
        assert model.get_layer("fine").compute_dtype == "float64"
        assert model.get_layer("first").compute_dtype == "float16"
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert model.get_layer("first").compute_dtype == "float32"
    assert model.optimizer.loss_scale_factor == 8.0


def test_an_earlier_trace_is_not_used_again():
    model = small(layers.Dense(3))
    x, y = np.ones((8, 4), "float32"), np.ones((8, 3), "float32")
    model.fit(x, y, verbose=0)
    before = model.train_function
    with with_precision(model, "float16"):
        assert model.train_function is None
        model.fit(x, y, verbose=0)
        assert model(x).dtype == "float16"
    assert model.train_function is not before
    assert model(x).dtype == "float32"


@pytest.mark.parametrize(
    ("build", "policy", "message"),
    [
        (lambda: small(layers.Dense(3)), "float8", "no such precision"),
        (lambda: keras.Sequential([keras.Input((4,)), layers.Dense(3)]), "float16", "not compiled"),
        (lambda: keras.Sequential([layers.Dense(3)]), "float16", "not built"),
    ],
)
def test_unsupported_policies_are_refused(build, policy, message):
    with pytest.raises(LowtideError, match=message), with_precision(build(), policy):
        pass
