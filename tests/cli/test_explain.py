import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import lowtide as package
from tests.training_runs import finished_run, long_run, write_run


def test_the_report_is_shown_again(lowtide, tide_file):
    answer = lowtide("explain", tide_file)
    assert answer.code == 0
    assert "train.py:build · batch 5" in answer.out
    assert "at the peak: gradient of dense (MatMul)" in answer.out
    assert answer.err == ""


@pytest.mark.parametrize(("budget", "code"), [("9216", 0), ("9KiB", 0), ("9215", 1), ("4k", 1)])
def test_the_exit_code_says_whether_it_fits(lowtide, tide_file, budget, code):
    answer = lowtide("explain", tide_file, "--budget", budget)
    assert answer.code == code
    assert ("✓ fits" in answer.out) == (code == 0)


def test_json_is_all_that_is_printed(lowtide, tide_file):
    answer = lowtide("explain", tide_file, "--json", "--budget", "1k", "--top", "2")
    data = json.loads(answer.out)
    assert data["schema_version"] == 1
    assert data["peak_bytes"] == 8704
    assert data["budget"] == {"bytes": 1024, "fits": False, "largest_batch_size": None}
    assert len(data["top"]) == 2
    assert answer.code == 1


def test_files_are_written_and_not_overwritten_without_force(lowtide, refused, tide_file, tmp_path):
    page, picture = tmp_path / "page.html", tmp_path / "curve.svg"
    answer = lowtide("explain", tide_file, "--html", page, "--svg", picture)
    assert answer.code == 0
    assert page.read_text().startswith("<!doctype html>")
    ElementTree.parse(picture)
    assert f"wrote {page}" in answer.err
    page.write_text("mine")
    assert "--force" in refused("explain", tide_file, "--html", page)
    assert page.read_text() == "mine"
    assert lowtide("explain", tide_file, "--html", page, "--force").code == 0
    assert page.read_text() != "mine"


def test_the_address_space_of_a_recorded_step_is_written(lowtide, refused, recorded_tide, tide_file, tmp_path):
    recorded, picture, page = tmp_path / "recorded.tide", tmp_path / "space.svg", tmp_path / "page.html"
    recorded_tide.save(recorded)
    answer = lowtide("explain", recorded, "--space", picture)
    assert answer.code == 0
    assert "recorded in step 12" in answer.out
    assert f"wrote {picture}" in answer.err
    ElementTree.parse(picture)
    assert "--force" in refused("explain", recorded, "--space", picture)
    # A predicted tide has none, and nothing else is written either.
    assert "no addresses" in refused("explain", tide_file, "--html", page, "--space", tmp_path / "other.svg")
    assert not page.exists()


def test_bad_input_is_one_line(refused, tide_file, tmp_path):
    assert "8 bananas" in refused("explain", tide_file, "--budget", "8 bananas")
    assert "nowhere.tide" in refused("explain", "nowhere.tide")
    assert "does not exist" in refused("explain", tide_file, "--svg", tmp_path / "no" / "a.svg")
    assert "says that memory ran out" in refused("explain", __file__)
    assert "--top" in refused("explain", tide_file, "--top", "-3")
    assert "--tap" in refused("explain", tide_file, "--tap", "3")
    assert "FILE" in refused("explain")
    assert "predikt" in refused("predikt")


def as_a_program(*arguments: str, **environment: str) -> subprocess.Popen:
    environment["PYTHONPATH"] = str(Path(package.__file__).parents[1])
    command = [sys.executable, "-m", "lowtide", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_the_program_as_a_module():
    out, err = as_a_program("--version").communicate()
    assert (out, err) == (f"lowtide, version {package.__version__}\n", "")


def test_where_only_ascii_can_be_printed_the_numbers_still_are(tide_file):
    program = as_a_program("explain", tide_file, PYTHONIOENCODING="ascii")
    out, err = program.communicate()
    assert (program.returncode, err) == (0, "")
    assert "peak 8.5 KiB" in out


def test_a_reader_that_stops_early_is_not_an_error(tide_file):
    with as_a_program("explain", tide_file, "--json") as program:
        program.stdout.close()
        assert program.stderr.read() == ""
    assert program.returncode == 141


def test_no_arguments_show_the_help_and_every_verb_has_one(lowtide):
    answer = lowtide()
    assert answer.code == 2
    assert "predict" in answer.err
    for verb in ("predict", "explain"):
        answer = lowtide(verb, "--help")
        assert answer.code == 0
        assert "--json" in answer.out


def test_a_training_run_is_told(lowtide, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "a", finished_run()[:16])
    answer = lowtide("explain", "runs/a")
    assert (answer.code, answer.err) == (0, "")
    for words in ("device memory ran out", "→ steps are planned for 7.44 GiB", "lowtide train --resume runs/a"):
        assert words in answer.out
    data = json.loads(lowtide("explain", "runs/a", "--json").out)
    assert [attempt["cause"] for attempt in data["attempts"] if "cause" in attempt] == ["device memory", "killed"]
    page = tmp_path / "run.html"
    assert lowtide("explain", "runs/a", "--html", page).code == 0
    assert "steps are planned for 7.44 GiB" in page.read_text()
    assert "no curve of a step" in refused("explain", "runs/a", "--budget", "1GiB")
    assert "Is a directory" in refused("explain", "runs")


def test_a_run_that_was_given_up_is_a_problem(lowtide, tmp_path):
    write_run(tmp_path / "a", long_run())
    answer = lowtide("explain", tmp_path / "a")
    assert answer.code == 1
    assert "✗ Given up after 500 steps in 50 attempts" in answer.out
