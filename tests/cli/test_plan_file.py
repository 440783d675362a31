"""lowtide explain FILE.plan, and what lowtide plan refuses before TensorFlow is imported."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import lowtide as package
from tests.pages import read_data


def test_a_saved_plan_is_shown_again(lowtide, plan_file):
    answer = lowtide("explain", plan_file)
    assert (answer.code, answer.err) == (0, "")
    text = " ".join(answer.out.split())
    assert text.startswith("16 KiB -> 9 KiB, +14% time: 2 tensors recomputed, 1 operation reordered; results unchanged")
    assert "✓ fits in 10 KiB, with 1 KiB to spare" in text
    assert "9 KiB +14% 2 this plan" in text
    assert 'lt.fit_in(model, budget="10KiB")' in text


def test_json_is_all_that_is_printed(lowtide, plan, plan_file):
    answer = lowtide("explain", plan_file, "--json", "--top", "2")
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out) == json.loads(plan.to_json(top=2))


def test_the_number_of_listed_actions_is_as_given(lowtide, plan_file):
    assert "and 2 more that save 100 B and cost 3.5 µs" in lowtide("explain", plan_file, "--top", "1").out
    assert "recompute  " not in lowtide("explain", plan_file, "--top", "0").out


def test_files_are_written_and_not_overwritten_without_force(lowtide, refused, plan_file, tmp_path):
    page, picture = tmp_path / "plan.html", tmp_path / "plan.svg"
    answer = lowtide("explain", plan_file, "--html", page, "--svg", picture)
    assert answer.code == 0
    assert f"wrote {page}" in answer.err
    assert read_data(page.read_text())["frontier"]["points"]
    ElementTree.parse(picture)
    assert "--force" in refused("explain", plan_file, "--html", page)
    assert lowtide("explain", plan_file, "--html", page, "--force").code == 0


def test_a_plan_is_known_by_its_content_too(lowtide, plan_file, tmp_path):
    other = tmp_path / "renamed.zip"
    other.write_bytes(plan_file.read_bytes())
    assert "this plan" in lowtide("explain", other).out


def test_a_plan_over_its_budget_exits_1(lowtide, plan, tmp_path):
    """Planning never makes one; a file may have been."""
    from dataclasses import replace

    replace(plan, budget_bytes=9000).save(tmp_path / "over.plan")
    answer = lowtide("explain", tmp_path / "over.plan")
    assert answer.code == 1
    assert "✗ may run out in 8.79 KiB" in answer.out


def test_bad_input_is_one_line(refused, plan_file, tide_file, tmp_path):
    assert "a plan has its own budget" in refused("explain", plan_file, "--budget", "1k")
    assert "--space" in refused("explain", plan_file, "--space", tmp_path / "space.svg")
    assert "not a tide: it is a plan" in refused("explain", tide_file, plan_file)
    assert "nowhere.plan" in refused("explain", tmp_path / "nowhere.plan")
    plan_file.write_bytes(plan_file.read_bytes()[:999])
    assert "not a plan" in refused("explain", plan_file)


def test_what_plan_refuses_before_anything_is_imported(refused, tmp_path):
    target = "nothing.py:build"
    assert "--budget" in refused("plan", target)
    assert "8 bananas" in refused("plan", target, "--budget", "8 bananas")
    assert "--batch-size 0" in refused("plan", target, "--budget", "1GiB", "--batch-size", "0")
    assert "int8" in refused("plan", target, "--budget", "1GiB", "--allow", "int8")
    assert "does not exist" in refused("plan", target, "--budget", "1GiB", "--save", tmp_path / "no" / "a.plan")
    existing = tmp_path / "a.plan"
    existing.write_text("mine")
    assert "--force" in refused("plan", target, "--budget", "1GiB", "--save", existing)
    assert existing.read_text() == "mine"


@pytest.mark.parametrize("arguments", [["plan", "--help"], ["explain", "{plan}"]])
def test_neither_help_nor_a_saved_plan_needs_tensorflow(plan_file, arguments):
    arguments = [argument.format(plan=plan_file) for argument in arguments]
    code = (
        "import sys; sys.modules['tensorflow'] = sys.modules['keras'] = None\n"
        f"import lowtide.cli; lowtide.cli.main({arguments!r})"
    )
    environment = {"PYTHONPATH": str(Path(package.__file__).parents[1]), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "budget" in done.stdout
