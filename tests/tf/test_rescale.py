"""One trace, rescaled to several batch sizes; and the largest batch for a budget."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import step_cases
import tensorflow as tf
from keras import layers

import lowtide as lt
from lowtide.tf.trace.predict import solve_batch

MODELS = ("conv", "mlp", "attention")


def predict(model, batch_size):
    """Return the tide, and how often the model was traced for it."""
    stages: list[str] = []
    tide = lt.predict(model, batch_size=batch_size, progress=lambda progress: stages.append(progress.stage))
    return tide, stages.count("tracing")


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


def test_the_time_that_is_left_is_estimated_and_falls():
    reports = []
    lt.predict(step_cases.CASES["conv"]().target, batch_size=32, progress=reports.append)
    left = {each.stage: each.left_seconds for each in reports}
    assert left["tracing"] > 0
    assert left["optimizing the graph with Grappler"] > 0
    assert left["simulating"] is None


def test_a_model_that_is_compiled_anew_is_traced_again():
    model = step_cases.CASES["mlp"]().target
    with_slots, _ = predict(model, 32)
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    without, traces = predict(model, 32)
    assert traces == 1
    assert without.breakdown()["optimizer"] < with_slots.breakdown()["optimizer"] / 2


def test_a_size_that_equals_the_batch_is_not_taken_for_it():
    """The heads of the attention case have 16 elements: in a reshape to (-1, 48, 4, 16) the 16 is not the batch."""
    from lowtide.tf.trace.step_cache import find_step

    step = find_step(step_cases.CASES["attention"]().target, (), 16, None, exactly=True)
    assert 16 in {shape[-1] for shape in step.program.graph_at(None).shapes if shape}
    assert step.rescales_to(64)
    fresh = find_step(step_cases.CASES["attention"]().target, (), 64, None, exactly=True)
    # Names differ from model to model.
    assert sorted(step.workload(64).sizes) == sorted(fresh.workload(None).sizes)


def test_a_batch_that_is_mistaken_for_another_size_is_noticed():
    """A table of as many rows as the batch is not a batch: where it is rescaled as one, the step is traced again."""
    table = tf.constant(np.arange(12 * 8, dtype="float32").reshape(12, 8))

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.einsum("bi,ji->bj", x, table) @ tf.ones((12, 3)))

    specs = (tf.TensorSpec((None, 8)),)
    tide = lt.predict(step, *specs, batch_size=12)
    stages: list[str] = []
    other = lt.predict(step, *specs, batch_size=48, progress=lambda progress: stages.append(progress.stage))
    assert (tide.batch_size, other.batch_size) == (12, 48)
    assert stages.count("tracing") == 1


def test_the_largest_batch_of_a_predicted_model_needs_no_other_trace():
    model = wide_model()
    lt.predict(model, batch_size=64)
    stages: list[str] = []
    answer = lt.max_batch_size(model, budget="64MiB", progress=lambda progress: stages.append(progress.stage))
    assert (answer.traced, stages.count("tracing")) == ((64,), 0)
    assert lt.predict(model, batch_size=answer.batch_size).safe_bytes <= 64 << 20
    assert lt.predict(model, batch_size=answer.batch_size * 33 // 32).safe_bytes > 64 << 20


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


@pytest.mark.parametrize(("budget", "first"), [(50_000, 16), (1 << 20, 16), (1 << 24, 512)])
def test_solving_within_a_tolerance_asks_less(budget, first):
    def count(tolerance: float) -> tuple[int, int]:
        asked: list[int] = []

        def bound(batch: int) -> int:
            asked.append(batch)
            # A line with steps.
            return 1000 + 7 * (batch - batch % 100)

        return solve_batch(bound, budget, 1 << 24, first, tolerance), len(asked)

    (exact, most), (near, fewer) = count(0.0), count(1 / 64)
    # The line starts above 0, and has steps of 100.
    assert exact / (1 + 1 / 32) - 100 <= near <= exact
    assert fewer < most


def test_solving_ends_at_the_largest_and_at_nothing():
    assert solve_batch(lambda batch: 5, 10, 100, 16) == 100
    assert solve_batch(lambda batch: 50, 10, 100, 16) == 0
