"""Predictions of small steps against the peaks that the real allocator shows when they run."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from tests.children import run_python

ROOT = Path(__file__).parents[2]
# What a process holds besides the tensors of the step: random seeds, iterators, counters.
SLACK_BYTES = 256 << 10
NAMES = (
    "mlp", "conv", "gru", "embedding", "cond", "while_loop", "nested_function", "kept_constant", "gan",
    "several_inputs", "shared_layer", "conv3d", "attention", "half_precision", "accumulated", "custom_train_step",
    "several_steps", "tiny",
)  # fmt: skip
ONEDNN_NAMES = ("conv", "several_inputs", "conv3d", "custom_train_step")
LIMITED = ("mlp", "conv", "embedding", "gan", "attention", "while_loop")
TOLERANCE = 0.1
# Its constant of 1 MiB goes into a free chunk of about 2 MiB; a kilobyte decides whether the chunk is split.
TOLERANCES = {"cond": 0.2}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict]:
    """All cases, predicted and run in one child process and its forks.

    Without oneDNN, whatever this processor's default is: some that have AMX refuse its bfloat16 kernels to a guest.
    """
    return run_cases(tmp_path_factory.mktemp("steps") / "results.jsonl", TF_ENABLE_ONEDNN_OPTS="0")


@pytest.fixture(scope="module")
def onednn_results(tmp_path_factory) -> dict[str, dict]:
    """Some cases once more, with oneDNN's kernels."""
    folder = tmp_path_factory.mktemp("onednn_steps")
    return run_cases(folder / "results.jsonl", *ONEDNN_NAMES, TF_ENABLE_ONEDNN_OPTS="1")


def run_cases(out: Path, *names: str, **settings: str) -> dict[str, dict]:
    run_python(ROOT / "tests" / "tf" / "step_child.py", out, *names, limit_mib=8000, **settings)
    found: dict[str, dict] = {}
    for line in out.read_text().splitlines():
        row = json.loads(line)
        assert "failed" not in row, row["failed"]
        found.setdefault(row["name"], {}).update(row)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_prediction_is_near_the_measured_peaks(results, name):
    """The chunks that steps get differ, so the prediction is compared with the range of their peaks."""
    case = results[name]
    tolerance = TOLERANCES.get(name, TOLERANCE)
    assert case["predicted_bytes"] >= (1 - tolerance) * min(case["peaks"]) - SLACK_BYTES
    assert case["predicted_bytes"] <= (1 + tolerance) * max(case["peaks"])


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_between_steps_are_near_the_measured_ones(results, name):
    """Variables, the batch, and the constants that TensorFlow computes once and keeps."""
    case = results[name]
    # A tensor of 1 MiB may be in a chunk of almost 2 MiB.
    slack = max(SLACK_BYTES, min(1 << 20, max(case["before"]) // 4))
    assert case["predicted_before"] >= (1 - TOLERANCE) * min(case["before"]) - slack
    assert case["predicted_before"] <= (1 + TOLERANCE) * max(case["before"]) + slack


@pytest.mark.parametrize("name", NAMES)
def test_the_safe_bound_is_not_below_the_usual_step(results, name):
    """These steps take a few MiB, where one chunk of 1 MiB is several percent; on a busy machine peaks differ more."""
    case = results[name]
    assert case["safe_bytes"] >= case["predicted_bytes"]
    assert case["safe_bytes"] + SLACK_BYTES >= 0.90 * statistics.median(case["peaks"])


@pytest.mark.parametrize("name", LIMITED)
def test_a_hard_limit_above_the_safe_bound_does_not_run_out(results, name):
    case = results[name]
    assert "limited_peaks" in case, "the process with the limit crashed"
    assert max(case["limited_peaks"]) <= case["limit_bytes"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_runs_while_predicting(results, name):
    case = results[name]
    assert case["variables"] > 0
    assert case["unchanged"]


@pytest.mark.parametrize("name", NAMES)
def test_every_op_is_modelled(results, name):
    assert results[name]["unmodelled"] == []


def test_all_cases_ran_with_their_batch(results):
    assert set(results) == {*NAMES, "huge_batch"}
    assert all(results[name]["batch_size"] > 1 for name in NAMES)


def test_predicting_does_not_allocate_the_batch(results):
    taken, predicted = results["huge_batch"]["huge"]
    assert predicted > results["huge_batch"]["batch_bytes"]
    assert taken < 1 << 20


@pytest.mark.parametrize("name", ONEDNN_NAMES)
def test_steps_with_onednn_kernels(onednn_results, name):
    case = onednn_results[name]
    assert case["predicted_bytes"] >= (1 - TOLERANCE) * min(case["peaks"]) - SLACK_BYTES
    assert case["predicted_bytes"] <= (1 + TOLERANCE) * max(case["peaks"])
    assert case["unmodelled"] == []
    assert case["notes"] == []
