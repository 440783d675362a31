"""A command that is given again answers from the cache, unless anything that its answer depends on has changed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lowtide as package

pytestmark = pytest.mark.tensorflow

HELPER = "def units():\n    with open('units.txt') as file:\n        return int(file.read())\n"
SCRIPT = """
import keras
from helper import units

def build():
    model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(units(), "relu"), keras.layers.Dense(10)])
    model.compile("adam", "mse")
    return model
"""
ORIGIN = "answered from the cache"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mlp.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "units.txt").write_text("512")
    return tmp_path


def settings(folder: Path) -> dict[str, str]:
    path = str(Path(package.__file__).parents[1])
    # Python itself takes the compiled file of a module that has the size and the time it had before.
    return {"PYTHONPATH": path, "LOWTIDE_CACHE": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}


def run(folder: Path, *arguments: str, **environment: str) -> tuple[dict, bool]:
    """Run a command in a process of its own; return its JSON, and whether it was answered from the cache."""
    everything = {**os.environ, **settings(folder), **environment}
    command = [sys.executable, "-m", "lowtide", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, env=everything, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout), ORIGIN in done.stderr


PREDICT = ("predict", "mlp.py:build", "--batch-size", "64")


def test_the_same_question_is_answered_from_the_cache(folder):
    first, was_known = run(folder, *PREDICT, "--budget", "64MiB")
    assert not was_known
    again, was_known = run(folder, *PREDICT, "--budget", "64MiB")
    assert was_known
    assert again == first
    # The tide does not depend on the budget.
    smaller, was_known = run(folder, *PREDICT)
    assert was_known
    assert smaller["peak_bytes"] == first["peak_bytes"]
    assert not run(folder, *PREDICT, "--no-cache")[1]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("mlp.py", "Dense(10)", "Dense(20)"), ("helper.py", "file.read()", "2 * file.read()"), ("units.txt", "2", "3")],
)
def test_an_edited_file_is_noticed(folder, name, old, new):
    first, _ = run(folder, *PREDICT)
    path = folder / name
    status = path.stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second, was_known = run(folder, *PREDICT)
    assert not was_known
    assert second["breakdown"]["weights"] != first["breakdown"]["weights"]


def test_another_flag_of_tensorflow_is_noticed(folder):
    run(folder, *PREDICT)
    assert not run(folder, *PREDICT, TF_ENABLE_ONEDNN_OPTS="0")[1]


def test_a_plan_is_answered_from_the_cache_and_can_be_saved(folder):
    arguments = ("plan", "mlp.py:build", "--batch-size", "8192", "--budget", "100MiB")
    first, was_known = run(folder, *arguments)
    assert not was_known
    again, was_known = run(folder, *arguments, "--save", "step.plan")
    assert was_known
    assert again == first
    assert package.load_plan(folder / "step.plan").fingerprint == first["fingerprint"]
    assert not run(folder, *arguments, "--exact")[1]


def test_a_published_model_is_answered_without_tensorflow(folder):
    arguments = ("predict", "keras:MobileNet", "--batch-size", "2")
    first, was_known = run(folder, *arguments)
    assert not was_known
    # Its import would fail.
    blocked = "import sys; sys.modules['tensorflow'] = None; from lowtide.cli import main; main(sys.argv[1:])"
    code = [sys.executable, "-c", blocked, *arguments, "--json"]
    environment = {**os.environ, **settings(folder)}
    done = subprocess.run(code, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == first
