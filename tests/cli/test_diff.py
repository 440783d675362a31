"""lowtide explain BEFORE AFTER, and lowtide predict --against."""

import json

import pytest

SCRIPT = """
import keras

WIDTH = 512

def build():
    model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(WIDTH, "relu"), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
"""


def test_two_tides_are_compared(lowtide, tide_file, wider_file):
    answer = lowtide("explain", tide_file, wider_file)
    assert answer.code == 0
    assert "peak 8.5 KiB -> 13.8 KiB, +61.8%: 1 layer grew, 1 is new" in answer.out
    assert "↑ dense_3 (was dense)" in answer.out
    assert answer.err == ""


@pytest.mark.parametrize(
    ("limit", "code"), [("61%", 1), ("62%", 0), ("5 KiB", 1), ("5.25KiB", 0), ("0%", 1), ("0", 1), ("100%", 0)]
)
def test_the_exit_code_says_whether_it_grew_too_much(lowtide, tide_file, wider_file, limit, code):
    answer = lowtide("explain", tide_file, wider_file, "--max-growth", limit)
    assert answer.code == code
    assert ("✗ the peak grew by 5.25 KiB" in answer.out) == (code == 1)
    assert lowtide("explain", wider_file, tide_file, "--max-growth", limit).code == 0


@pytest.mark.parametrize(("budget", "code"), [("16KiB", 0), ("15KiB", 1)])
def test_a_budget_is_compared_with_the_later_tide(lowtide, tide_file, wider_file, budget, code):
    assert lowtide("explain", tide_file, wider_file, "--budget", budget, "--max-growth", "100%").code == code


def test_json_and_markdown_are_all_that_is_printed(lowtide, tide_file, wider_file):
    answer = lowtide("explain", tide_file, wider_file, "--json", "--max-growth", "5%", "--budget", "1GiB")
    data = json.loads(answer.out)
    assert (answer.code, data["schema_version"], data["growth_bytes"]) == (1, 1, 5376)
    assert data["max_growth"] == {"given": "5%", "bytes": 435, "exceeded": True}
    assert data["budget"]["fits"] is True
    assert [row["layer"] for row in data["by_layer"]] == ["dense_3", "norm", None]
    answer = lowtide("explain", tide_file, wider_file, "--markdown")
    assert answer.out.startswith("### Memory of train.py:build")
    assert (answer.code, answer.err) == (0, "")


def test_the_page_is_written_and_not_overwritten_without_force(lowtide, refused, tide_file, wider_file, tmp_path):
    page = tmp_path / "difference.html"
    assert f"wrote {page}" in lowtide("explain", tide_file, wider_file, "--html", page).err
    assert "dense_3 (was dense)" in page.read_text()
    assert "--force" in refused("explain", tide_file, wider_file, "--html", page)


def test_bad_input_is_one_line(refused, tide_file, wider_file, tmp_path):
    assert "BEFORE AFTER" in refused("explain")
    assert "3 files" in refused("explain", tide_file, wider_file, tide_file)
    assert "nowhere.tide" in refused("explain", tide_file, "nowhere.tide")
    assert "not a tide" in refused("explain", __file__, wider_file)
    assert "'5'" in refused("explain", tide_file, wider_file, "--max-growth", "5")
    assert "200MiB" in refused("explain", tide_file, wider_file, "--max-growth", "much")
    assert "BEFORE AFTER" in refused("explain", tide_file, "--max-growth", "5%")
    assert "--markdown" in refused("explain", tide_file, "--markdown")
    assert "--json and --markdown" in refused("explain", tide_file, wider_file, "--json", "--markdown")


def test_a_prediction_is_not_started_without_the_tide_to_compare_with(refused, tmp_path):
    """Not even the target is looked at, and TensorFlow is not imported."""
    assert "nowhere.tide" in refused("predict", "nothing.py:build", "--against", tmp_path / "nowhere.tide")
    assert "--against" in refused("predict", "nothing.py:build", "--max-growth", "5%")
    assert "--against" in refused("predict", "nothing.py:build", "--markdown")


@pytest.mark.tensorflow
def test_a_prediction_against_the_tide_of_the_code_before(lowtide, tmp_path):
    script, main = tmp_path / "grows.py", tmp_path / "main.tide"
    script.write_text(SCRIPT)
    target = ("predict", f"{script}:build", "--batch-size", "64")
    assert lowtide(*target, "--save", main).code == 0
    assert lowtide(*target, "--against", main, "--max-growth", "20%").code == 0

    # Not the same length, so that no compiled file is taken for up to date.
    script.write_text(SCRIPT.replace("512", "1024"))
    answer = lowtide(*target, "--against", main, "--max-growth", "5%", "--json", "--budget", "1GiB")
    data = json.loads(answer.out)
    against = data["against"]
    assert answer.code == 1
    assert data["budget"]["fits"] is True
    assert against["max_growth"]["exceeded"] is True
    assert against["growth_bytes"] == data["peak_bytes"] - against["before"]["peak_bytes"]
    dense = [row for row in against["by_layer"] if (row["layer"] or "").startswith("dense")]
    assert [row["status"] for row in dense] == ["grown", "grown"]
    grown = dense[0]
    # Its weights alone, and what Adam keeps for each of them.
    assert grown["growth_bytes"] >= 3 * 4 * 512 * (256 + 1)
    shapes = [(change["before"]["shape"], change["after"]["shape"]) for change in grown["tensors"] if change["before"]]
    assert ([256, 512], [256, 1024]) in shapes

    answer = lowtide(*target, "--against", main)
    assert answer.code == 0
    # Long paths are broken into lines.
    assert f"{script}:build·batch64" in "".join(answer.out.split())
    assert "layersgrew" in "".join(answer.out.split())


def test_two_curves_over_each_other(lowtide, tide_file, wider_file, tmp_path):
    picture = tmp_path / "both.svg"
    assert lowtide("explain", tide_file, wider_file, "--svg", picture).code == 0
    text = picture.read_text()
    assert tide_file.name in text
    assert wider_file.name in text
