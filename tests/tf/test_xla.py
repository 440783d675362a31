"""Compiled steps: XLA's buffer assignment compared with the allocator's recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.children import run_python

pytestmark = pytest.mark.tensorflow

CASES = (
    "dense_with_dropout",
    "convolutions_with_normalization",
    "recurrent",
    "two_optimizers",
    "mixed_results",
)


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    child = Path(__file__).with_name("xla_child.py")
    found: dict[str, Any] = json.loads(run_python(child).stdout)
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_request_is_predicted_in_size_and_order(results: dict[str, Any], case: str) -> None:
    predicted, recorded = results[case]["predicted"], results[case]["recorded"]
    # The caller decides when results are freed; until then the order is TensorFlow's.
    own = next(row for row, size in enumerate(predicted) if size < 0) + 1
    assert recorded[:own] == predicted[:own]
    assert sorted(recorded) == sorted(predicted)


@pytest.mark.parametrize("case", CASES)
def test_arguments_are_the_variables_and_the_batch(results: dict[str, Any], case: str) -> None:
    found = results[case]
    captured = 20 * 30 * 4 if case == "mixed_results" else 0
    assert found["argument_bytes"] == found["resident_bytes"] + captured


@pytest.mark.parametrize("case", CASES)
def test_compiling_leaves_nothing_in_the_allocator(results: dict[str, Any], case: str) -> None:
    assert results[case]["left_over"] == 0


def test_updated_variables_take_no_new_memory(results: dict[str, Any]) -> None:
    # Four weights, two slots of each, the iteration, and two variables of each of two metrics.
    assert results["dense_with_dropout"]["updated"] == 4 + 8 + 1 + 4 + 1  # and the state of the random numbers
    assert {"weights", "optimizer", "input"} <= set(results["dense_with_dropout"]["kinds"])


@pytest.mark.parametrize("case", CASES)
def test_the_tide_adds_up(results: dict[str, Any], case: str) -> None:
    found = results[case]
    assert found["method"] == "xla"
    assert found["held"] == found["peak"] == sum(found["breakdown"].values())
    assert found["safe"] >= found["peak"]


def test_the_block_is_explained_by_layers(results: dict[str, Any]) -> None:
    # Only the first layer makes 300 columns, and its scope has the name of the second.
    held = {layer for layer, kind, shape in results["dense_with_dropout"]["top"] if shape == [16, 300]}
    assert "dense" in held
    assert held <= {"dense", "dropout", "dense_1"}
    weights = {tuple(shape): layer for layer, kind, shape in results["dense_with_dropout"]["top"] if kind == "weights"}
    assert (weights[200, 300], weights[300, 10]) == ("dense", "dense_1")
    assert results["convolutions_with_normalization"]["breakdown"]["activations"] > 16 * 32 * 32 * 16 * 4


def test_a_prediction_does_not_grow_with_the_batch(results: dict[str, Any]) -> None:
    growth = results["growth"]
    assert growth["input"] == (1 << 22) * 200 * 4
    assert growth["temp"] > growth["input"]
    assert growth["taken"] < 1 << 20


def test_a_compiled_call_inside_a_step(results: dict[str, Any]) -> None:
    call = results["call"]
    assert call["aliased"] == 50 * 30 * 4
    predicted = call["predicted"]
    start = call["recorded"].index(predicted[0])
    assert call["recorded"][start : start + len(predicted)] == predicted


def test_a_step_that_xla_cannot_compile_is_an_error_of_one_line(results: dict[str, Any]) -> None:
    refusals = results["refusals"]
    assert "EagerPyFunc" in refusals["op"]
    assert "jit_compile=False" in refusals["op"]
    assert "(None, 3)" in refusals["dimension"]
    assert not any("\n" in message for message in refusals.values())


def test_compiled_functions_are_recognised(results: dict[str, Any]) -> None:
    assert results["compiled"] == {"True": True, "False": False, "None": False}
