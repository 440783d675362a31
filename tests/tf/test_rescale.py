"""One trace, rescaled to several batch sizes; and the largest batch for a budget."""

from __future__ import annotations

import keras
import pytest
import step_cases
from keras import layers

import lowtide as lt
from lowtide.tf.trace.predict import solve_batch

MODELS = ("conv", "mlp", "attention")


def predict(model, batch_size):
    """Return the tide, and how often the model was traced for it."""
    told: list[str] = []
    tide = lt.predict(model, batch_size=batch_size, progress=lambda progress: told.append(progress.stage))
    return tide, told.count("tracing")


@pytest.mark.parametrize("name", MODELS)
def test_another_batch_size_needs_no_other_trace(name):
    """The prediction for 48 from a trace for 17 (no other size of these models) equals that from a trace for 48."""
    model = step_cases.CASES[name]().target
    small, first = predict(model, 17)
    large, second = predict(model, 48)
    assert (first, second) == (1, 0)
    assert (small.batch_size, large.batch_size) == (17, 48)
    # Not the peak: if weights are larger than a batch, it depends on how kernels split their work.
    assert large.breakdown()["input"] > small.breakdown()["input"]
    fresh, traces = predict(step_cases.CASES[name]().target, 48)
    assert traces == 1
    # Two traces of one model differ in the order of nodes, and so slightly in the peak.
    assert large.peak_bytes == pytest.approx(fresh.peak_bytes, rel=0.1)
    assert large.breakdown()["input"] == fresh.breakdown()["input"]


def test_the_same_batch_size_again_gives_the_same_result():
    model = step_cases.CASES["mlp"]().target
    first, _ = predict(model, 32)
    second, traces = predict(model, 32)
    assert traces == 0
    assert (second.peak_bytes, second.safe_bytes) == (first.peak_bytes, first.safe_bytes)


def test_a_model_that_is_compiled_anew_is_traced_again():
    model = step_cases.CASES["mlp"]().target
    with_slots, _ = predict(model, 32)
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    without, traces = predict(model, 32)
    assert traces == 1
    assert without.breakdown()["optimizer"] < with_slots.breakdown()["optimizer"] / 2


def wide_model() -> keras.Model:
    hidden = [layers.Dense(1024, activation="relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((512,)), *hidden, layers.Dense(10)])
    model.compile("sgd", "mse", jit_compile=False)
    return model


def test_a_budget_below_the_weights_allows_no_batch():
    answer = lt.max_batch_size(wide_model(), budget="1MiB")
    assert answer.batch_size == 0
    assert answer.safe_bytes > 1 << 20


@pytest.mark.parametrize(
    ("fixed", "slope", "budget"), [(1000, 7, 50_000), (0, 1, 17), (999, 1000, 2_500), (10, 3, 1 << 20)]
)
def test_solving_a_line(fixed, slope, budget):
    asked: list[int] = []

    def bound(batch: int) -> int:
        asked.append(batch)
        return fixed + slope * batch

    found = solve_batch(bound, budget, 1 << 20, 16)
    assert bound(found) <= budget < bound(found + 1)
    assert len(asked) < 16


def test_solving_ends_at_the_largest_and_at_nothing():
    assert solve_batch(lambda batch: 5, 10, 100, 16) == 100
    assert solve_batch(lambda batch: 50, 10, 100, 16) == 0
