"""Remedies of a step: their bytes against the real allocator, and what is left as it was."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from lowtide.tf.remedies.baked_constants import find_baked_constants
from lowtide.tf.remedies.examine import examine
from tests.children import last_json, run_python

CHILD = Path(__file__).with_name("remedies_child.py")


@pytest.fixture(scope="module")
def found() -> dict:
    return last_json(run_python(CHILD, "examine", limit_mib=4000))


@pytest.fixture(scope="module")
def remedies(found) -> dict[str, dict]:
    """The best remedy of each kind."""
    best: dict[str, dict] = {}
    for remedy in found["remedies"]:
        best.setdefault(remedy["kind"], remedy)
    return best


@pytest.fixture(scope="module")
def measured(remedies) -> dict[str, int]:
    """The peaks of the model as it is and with each remedy, each in a process of its own."""
    budget = re.search(r'"(.*?)"', remedies["remat"]["advice"])[1]
    cases = [("plain",), ("batch",), ("remat", budget)]
    with ThreadPoolExecutor(2) as threads:
        peaks = threads.map(lambda case: last_json(run_python(CHILD, *case, limit_mib=4000)), cases)
    return {case[0]: peak for case, peak in zip(cases, peaks, strict=True)}


@pytest.mark.parametrize("kind", ["batch", "remat"])
def test_a_remedy_saves_what_it_says(found, remedies, measured, kind):
    """Peaks differ by 2 to 4% between processes, and saving is the difference of two."""
    promised, plain = remedies[kind], measured["plain"]
    assert promised["of"] == "peak"
    assert promised["peak_bytes"] == pytest.approx(measured[kind], rel=0.1)
    assert promised["saves_bytes"] == pytest.approx(plain - measured[kind], abs=0.1 * plain)
    assert measured[kind] < plain


def test_an_optimizer_saves_at_most_its_state(found):
    """Each of the others keeps one slot where Adam keeps two: Adafactor of Keras too, beside its sums."""
    weights = 3 * (1024 * 1024 + 1024) + 10 * (1024 + 1)
    savings = [remedy["saves_bytes"] for remedy in found["remedies"] if remedy["kind"] == "optimizer"]
    assert all(saved <= 4 * weights for saved in savings)
    # Those that are no remedies save nothing, or less than peaks differ.
    tried = [note for note in found["notes"] if "would save nothing" in note]
    assert len(savings) + len(tried) <= 4


def test_the_model_gets_back_what_it_had(found):
    assert found["kept"] == [True, True]


def test_an_array_in_the_graph_is_reported_with_its_line(remedies):
    constant = remedies["constants"]
    assert "4 MiB, float32 1024×1024" in constant["problem"]
    assert "in layer lookup" in constant["problem"]
    assert constant["source"].startswith("remedies_child.py:")
    # Eleven copies where a weight is one.
    assert (constant["saves_bytes"], constant["of"]) == (10 * 4 << 20, "process")


def test_what_changes_results_says_so(remedies):
    assert {kind for kind, remedy in remedies.items() if remedy["changes"] is None} == {"constants", "remat"}
    assert 0 <= remedies["remat"]["slowdown"] <= 0.05


def test_remedies_are_ordered_by_what_they_save(found):
    sizes = [remedy["saves_bytes"] for remedy in found["remedies"]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_step_written_by_hand():
    table = np.random.default_rng(0).random((256, 128), dtype="float32")
    zeros = np.zeros((512, 512), "float32")
    weight = tf.Variable(tf.ones((128, 64)))

    @tf.function
    def step(rows):
        found = tf.gather(table, rows) + tf.reduce_sum(tf.constant(0.0, shape=zeros.shape))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.relu(found @ weight))
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    spec = tf.TensorSpec((64,), tf.int32)
    # A constant that repeats one number is small in the graph.
    (constant,) = find_baked_constants(step.get_concrete_function(spec))
    assert (constant.shape, constant.bytes) == ((256, 128), 256 * 128 * 4)
    found = examine(step, spec)
    remedy = next(each for each in found.remedies if each.kind == "constants")
    assert remedy.saves_bytes == 6 * 256 * 128 * 4
    assert "tf.Variable" in remedy.advice
    assert remedy.source.startswith("test_remedies.py:")
