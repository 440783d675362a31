"""Models that are gone give their memory back, by the allocator's own figure, and models that stay go on working."""

from pathlib import Path

import pytest

import lowtide
from lowtide.errors import LowtideError
from tests.children import last_json, run_python

# Weights of the child's model, and two slots of Adam for each: (64 x 1024 + 1024 + 1024 + 1) x 3 floats.
MODEL_BYTES = (64 * 1024 + 1024 + 1024 + 1) * 3 * 4


@pytest.fixture(scope="module")
def results():
    child = Path(__file__).with_name("release_child.py")
    return last_json(run_python(child))


def test_without_release_each_model_stays(results):
    first, second, third = results["kept"]
    assert second - first >= MODEL_BYTES
    assert third - second >= MODEL_BYTES


def test_dead_models_are_known_with_their_bytes(results):
    assert len(results["dead"]) == 4
    assert all(count >= MODEL_BYTES for count in results["dead"])


def test_release_without_a_model_gives_all_of_them_back(results):
    released = results["all"]
    assert released["entries"] >= 4
    assert released["held_bytes"] >= 4 * MODEL_BYTES
    assert released["measured_by"] == "the allocator of CPU:0"
    assert released["bytes_before"] - released["bytes_after"] >= 4 * MODEL_BYTES
    assert released["bytes_after"] < MODEL_BYTES


def test_released_models_leave_nothing(results):
    assert max(results["released"]) < MODEL_BYTES
    assert results["dead_after"] == 0


def test_a_model_that_shares_layers_continues(results):
    sharing = results["sharing"]
    assert sharing["entries"] >= 1
    assert sharing["trained"]
    assert sharing["prediction_is_finite"]
    # The custom gradient of the function that was traced before the release.
    assert sharing["gradient"] == 3.0


def test_a_released_model_may_be_used_after_all(results):
    used = results["used_again"]
    # One step before the release and three after it.
    assert used["iterations"] == 4
    assert used["prediction_is_finite"]
    assert used["entries"] >= 1


def test_release_takes_a_model():
    with pytest.raises(LowtideError, match="release takes a Keras model"):
        lowtide.release("model.keras")
