"""Real programs that run out of memory under lowtide run: each explanation names the right cause."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.children import run_python

PROGRAMS = Path(__file__).parent / "programs"
CAUSES = {"out_batch": "batch", "out_leak": "leak", "out_constant": "constant", "out_fragments": "fragmentation"}
LIMIT = "250MiB"
# A batch that is so little too large that computing tensors again would do.
NEARLY = ("out_batch 72", "1")
CASES = [(program, onednn) for program in CAUSES for onednn in ("0", "1")]


def explain(case):
    program, onednn = case
    name, *arguments = program.split()
    script = [str(PROGRAMS / f"{name}.py"), *arguments]
    words = ["-m", "lowtide", "run", "--limit", LIMIT, "--json", *script]
    done = run_python(*words, ends_well=False, TF_ENABLE_ONEDNN_OPTS=onednn, TF_CPP_MIN_LOG_LEVEL="0")
    assert done.stdout.startswith("{"), done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers():
    # TensorFlow waits ten seconds for memory before it gives up, so these run side by side.
    with ThreadPoolExecutor(4) as pool:
        cases = [*CASES, NEARLY]
        return dict(zip(cases, pool.map(explain, cases), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-onednn{case[1]}")
def test_the_cause_is_named(answers, case):
    code, answer = answers[case]
    assert code != 0
    assert len(answer["shortages"]) == 1
    shortage = answer["shortages"][0]
    assert shortage["cause"]["name"] == CAUSES[case[0]], shortage["cause"]
    assert shortage["cause"]["advice"]
    assert shortage["limit_bytes"] == 250 << 20
    assert shortage["request"]["bytes"] > shortage["largest_free_bytes"]
    held = sum(shortage["by_kind"].values())
    assert held == shortage["in_use_bytes"]


@pytest.mark.parametrize("onednn", ["0", "1"])
def test_a_step_that_is_too_large_is_reported_by_layer_with_the_batch_that_fits(answers, onednn):
    _, answer = answers["out_batch", onednn]
    shortage = answer["shortages"][0]
    assert shortage["batch_size"] == 256
    assert 0 < shortage["largest_batch_size"] < 256
    assert shortage["step"] == 1
    assert {"weights", "activations"} <= set(shortage["by_kind"])
    assert any(share["layer"] and share["layer"].startswith("conv2d") for share in shortage["by_layer"])
    assert shortage["tide"] is not None
    # Each of its results is half of the limit.
    assert shortage["planned_slowdown"] is None
    assert "lowtide plan TARGET" in shortage["cause"]["advice"][1]


def test_advice_states_the_cost_of_a_plan_that_would_fit_the_batch(answers):
    _, answer = answers[NEARLY]
    # Two threads may ask in vain at once; the last one ended it.
    shortage = answer["shortages"][-1]
    assert shortage["cause"]["name"] == "batch"
    assert shortage["largest_batch_size"] < shortage["batch_size"] == 72
    assert 0 <= shortage["planned_slowdown"] < 0.4
    assert 'lt.fit_in(model, budget="250MiB")' in shortage["cause"]["advice"][1]


@pytest.mark.parametrize("onednn", ["0", "1"])
def test_a_leak_is_reported_with_the_holder_of_its_tensors(answers, onednn):
    _, answer = answers["out_leak", onednn]
    shortage = answer["shortages"][0]
    assert shortage["largest_batch_size"] is None
    assert "history" in shortage["holders"][0]["name"]
    assert shortage["holders"][0]["count"] > 100
    assert shortage["request"]["source"].startswith("out_leak.py:")
    steps, sizes = zip(*shortage["samples"], strict=True)
    assert sizes[-1] > 100 << 20 > sizes[1]
    assert steps[-1] == shortage["step"] - 1


@pytest.mark.parametrize("onednn", ["0", "1"])
def test_an_oversized_constant_is_reported_with_its_line(answers, onednn):
    _, answer = answers["out_constant", onednn]
    assert answer["shortages"][0]["request"]["source"].startswith("out_constant.py:")


def test_a_mistake_that_the_doctor_knows_is_named_with_its_line():
    code, answer = explain(("out_shuffle", "0"))
    assert code != 0
    shortage = answer["shortages"][-1]
    # The line that asked reads the dataset of the line with the mistake.
    assert shortage["request"]["source"] == "out_shuffle.py:8"
    assert [(each["code"], each["source"]) for each in shortage["mistakes"]] == [("LT203", "out_shuffle.py:6")]
