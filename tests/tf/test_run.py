"""Scripts with the real TensorFlow that run out of memory under lowtide run, and what is seen of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import lowtide

# TensorFlow waits ten seconds for memory before it gives up, so these run side by side.
SCRIPTS = {
    # Under 100 MiB: forty are held, and 256 more are asked for.
    "eager": """
import tensorflow as tf
held = [tf.fill((1024, 1024), 1.0 * i) for i in range(10)]
print("held", len(held), flush=True)
tf.fill((64, 1024, 1024), 2.0)
""",
    # A kernel of oneDNN that is given no memory for its output ends the process.
    "kernel": """
import tensorflow as tf
x, kernel, held = tf.fill((8, 64, 64, 64), 1.0), tf.fill((3, 3, 64, 64), 1.0), []
while True:
    held.append(tf.nn.conv2d(x, kernel, 1, "SAME"))
    print("held", len(held), flush=True)
""",
    # The allocator has given nothing yet; the copy fails, and TensorFlow writes to address zero.
    "silent": """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf
print("level", os.environ["TF_CPP_MIN_LOG_LEVEL"], flush=True)
data = np.ones((38, 1024, 1024), np.float32)
held = tf.constant(data)
""",
    "redirected": """
import logging, os
import numpy as np, tensorflow as tf
logging.disable(logging.CRITICAL)
tf.get_logger().setLevel("ERROR")
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
data = np.ones((38, 1024, 1024), np.float32)
held = tf.constant(data)
""",
}
LIMIT = "100MiB"
SILENCED = ("silent", "redirected")


class Run(NamedTuple):
    code: int
    out: str
    err: str
    log: str


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("run")
    environment = os.environ | {"PYTHONPATH": str(Path(lowtide.__file__).parents[1]), "TF_ENABLE_ONEDNN_OPTS": "1"}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    started = {}
    for name, text in SCRIPTS.items():
        (folder / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "lowtide", "run", "--limit", LIMIT, "--log", f"{name}.log", f"{name}.py"]
        command[4:4] = ["--json"] * (name in SILENCED)
        started[name] = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    ended = {}
    for name, process in started.items():
        out, err = process.communicate()
        ended[name] = Run(process.returncode, out, err, (folder / f"{name}.log").read_text())
    return ended


def test_the_limit_is_kept_and_the_traceback_is_the_scripts(runs):
    run = runs["eager"]
    assert run.code == 1
    assert run.out.startswith("held 10\n")
    assert 'eager.py", line 5, in <module>' in run.err
    assert "ResourceExhaustedError" in run.err
    assert str(Path(lowtide.__file__).parent) not in run.err


def test_the_dump_is_in_the_log_and_not_on_the_screen(runs):
    run = runs["eager"]
    for text in (
        "BFCAllocator dump for",
        "InUse at",
        "Chunks of size 4194304",
        "MaxInUse:",
        "Limit: ",
        "LargestFreeBlock:",
    ):
        assert text in run.log
        assert text not in run.err
    assert "ran out of memory trying to allocate 256.00MiB" in run.err
    # Everything else is on the screen, as it came.
    kept = [line for line in run.err.splitlines(keepends=True) if not line.startswith("wrote ")]
    rest = iter(run.log.splitlines(keepends=True))
    assert all(line in rest for line in kept)


def test_a_killed_process_is_reported_with_its_signal(runs):
    run = runs["kernel"]
    assert run.code == 128 + 11, run
    assert "killed by SIGSEGV" in run.out
    assert "BFCAllocator dump for" in run.log
    assert "BFCAllocator dump for" not in run.err


@pytest.mark.parametrize("name", SILENCED)
def test_a_script_that_silences_tensorflow_is_still_explained(runs, name):
    run = runs[name]
    assert run.code == 128 + 11, run
    (shortage,) = json.loads(run.out)["shortages"]
    assert shortage["cause"]["name"] == "constant"
    assert shortage["request"]["bytes"] == 38 << 22
    assert shortage["request"]["shape"] == [38, 1024, 1024]
    assert shortage["request"]["source"] == f"{name}.py:{8 if name == 'redirected' else 7}"
    assert shortage["limit_bytes"] == 100 << 20


def test_a_silenced_message_is_in_the_log_and_not_on_the_screen(runs):
    run = runs["silent"]
    assert "ran out of memory trying to allocate 152.00MiB" in run.log
    assert "bfc_allocator.cc" not in run.err
    assert "Current allocation summary" not in run.err
    # The script finds its own level.
    assert "level 3" in run.err
