"""lowtide plan, from the command to the files, on a model that takes seconds."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from tests.pages import read_data

pytestmark = pytest.mark.tensorflow

SCRIPT = """
import keras

print("this is the script speaking")

def build():
    hidden = [keras.layers.Dense(128, "gelu") for _ in range(6)]
    model = keras.Sequential([keras.Input((128,)), *hidden, keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model

if __name__ == "__main__":
    import numpy

    rows = 4 * 8192
    x, y = numpy.zeros((rows, 128), "float32"), numpy.zeros(rows, "int64")
    build().fit(x, y, batch_size=8192, verbose=0)
"""
BATCH = 8192


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "deep.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def target(script):
    return "plan", f"{script}:build", "--batch-size", str(BATCH)


@pytest.fixture
def two_thirds(lowtide, target):
    """A budget of two thirds of what the step takes as it is."""
    return "--budget", json.loads(lowtide(*target, "--budget", "8GiB", "--json").out)["before_bytes"] * 2 // 3


def test_a_plan_in_json_and_in_files_that_explain_shows_again(lowtide, target, script, tmp_path):
    answer = lowtide(*target, "--budget", "8GiB", "--json")
    idle = json.loads(answer.out)
    assert (answer.code, idle["fits"], idle["actions"]) == (0, True, [])
    assert idle["summary"].endswith("fits 8 GiB as it is")
    # Each of the six layers keeps at least what it reads and what its activation is computed from.
    assert idle["before_bytes"] == idle["peak_bytes"] > 6 * 2 * BATCH * 128 * 4

    budget = idle["before_bytes"] * 2 // 3
    saved, page, picture = tmp_path / "deep.plan", tmp_path / "deep.html", tmp_path / "deep.svg"
    files = ("--save", saved, "--html", page, "--svg", picture)
    answer = lowtide(*target, "--exact", "--budget", budget, "--json", *files)
    assert answer.code == 0, answer
    data = json.loads(answer.out)
    assert (data["target"], data["batch_size"], data["budget_bytes"]) == (f"{script}:build", BATCH, budget)
    assert data["fits"] is True
    assert data["peak_bytes"] <= budget < data["before_bytes"]
    assert data["actions"]
    assert data["frontier"]
    assert data["summary"].endswith("; results unchanged")
    for path in (saved, page, picture):
        assert f"wrote {path}" in answer.err
    assert read_data(page.read_text())["actions"]
    ElementTree.parse(picture)

    again = lowtide("explain", saved, "--json")
    assert (again.code, json.loads(again.out)) == (0, data)
    shown = " ".join(lowtide("explain", saved).out.split())
    assert shown.startswith(data["summary"])
    assert "this plan" in shown


def test_times_of_a_recorded_run_are_what_a_plan_costs(
    lowtide, refused, target, two_thirds, script, tmp_path, tide_file
):
    recorded = tmp_path / "run.tide"
    assert lowtide("run", "--json", "--save", recorded, script).code == 0
    budget = ("--exact", *two_thirds)
    measured = json.loads(lowtide(*target, *budget, "--recorded", recorded, "--json").out)
    assert measured["notes"] == [f"times measured in {recorded}"]
    assert measured["fits"] is True
    assert measured["slowdown"] > 0
    estimated = json.loads(lowtide(*target, *budget, "--json").out)
    assert estimated["notes"] == ["times estimated from FLOPs and bytes"]
    assert estimated["actions"] != measured["actions"]

    assert "has no times of ops" in refused(*target, *budget, "--recorded", tide_file)
    assert "cannot read the tide" in refused(*target, *budget, "--recorded", tmp_path / "nowhere.tide")


def test_a_batch_is_split_where_that_costs_less_than_the_frontier_of_the_whole_batch(lowtide, target, two_thirds):
    whole = json.loads(lowtide(*target, *two_thirds, "--exact", "--json").out)
    split = json.loads(lowtide(*target, *two_thirds, "--json").out)
    assert split["pieces"] > 1
    assert split["slowdown"] < whole["slowdown"]
    # The same frontier; the model is built anew for each, and its ops are not always simulated in the same order.
    for ours, theirs in zip(split["frontier"], whole["frontier"], strict=True):
        assert ours == pytest.approx(theirs, rel=0.05, abs=0.02)
    assert split["notes"][0] == "times estimated from FLOPs and bytes"
    assert "micro-batches of each batch" in split["notes"][1]


def test_where_no_plan_fits_it_says_so_and_exits_1(lowtide, target, tmp_path):
    answer = lowtide(*target, "--budget", "2MiB", "--json", "--html", tmp_path / "page.html")
    data = json.loads(answer.out)
    assert answer.code == 1
    assert data["fits"] is False
    # The smallest plan was not looked for: what exists before the step is above the budget.
    assert data["smallest_bytes"] is None
    assert data["held_bytes"] > data["budget_bytes"] == 2 << 20
    assert data["allowable"] == []
    assert not (tmp_path / "page.html").exists()
    answer = lowtide(*target, "--budget", "2MiB")
    assert answer.code == 1
    assert "✗" in answer.out
    shown = " ".join(answer.out.split())
    assert "the batch alone take" in shown
    assert "bfloat16" not in shown


def test_a_missing_target_is_one_line(refused):
    assert "nothing.py" in refused("plan", "nothing.py:build", "--budget", "1GiB")
