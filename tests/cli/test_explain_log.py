"""`lowtide explain train.log`, as a person types it."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import lowtide as package
from tests.unit.logs import MIB, OOM, as_bytes, whole_log

VERSIONS = ["0.12", "1.4", "1.14", "2.4", "2.21"]


def write_log(path: Path, *parts: list[str]) -> Path:
    path.write_bytes(b"".join(as_bytes([line for part in parts for line in part])))
    return path


@pytest.fixture
def log_file(tmp_path) -> Path:
    return write_log(tmp_path / "train.log", whole_log("2.21"))


def test_the_first_line_is_the_cause(lowtide, log_file):
    answer = lowtide("explain", log_file)
    assert answer.code == 1
    assert answer.err == ""
    first = next(line.strip() for line in answer.out.splitlines() if line.strip())
    assert first.startswith("✗ Fragmentation: 50 MiB were free, but in pieces, the largest of 30 MiB")
    text = " ".join(answer.out.split())
    assert "float32 64×56×56×64 · by model/conv/Conv2D · at train.py:17 · on GPU:0" in text
    assert "100 MiB 1 100 MiB" in text
    assert "48 MiB 4 12 MiB" in text
    assert "TF_GPU_ALLOCATOR=cuda_malloc_async" in text


@pytest.mark.parametrize("version", VERSIONS)
def test_json_of_every_version(lowtide, tmp_path, version):
    log = write_log(tmp_path / "train.log", whole_log(version))
    answer = lowtide("explain", log, "--json", "--top", "1")
    assert answer.code == 1
    data = json.loads(answer.out)
    assert data["schema_version"] == 1
    assert data["lines"] == len(whole_log(version))
    (shortage,) = data["shortages"]
    assert shortage["schema_version"] == 1
    assert shortage["cause"]["name"] == "fragmentation"
    assert shortage["request"]["shape"] == [64, 56, 56, 64]
    assert shortage["free_bytes"] == 50 * MIB
    assert [holder["bytes"] for holder in shortage["holders"]] == [100 * MIB]


def test_several_are_all_shown_with_the_batch_that_they_share(lowtide, tmp_path):
    other = OOM.replace("64,56,56", "64,28,28")
    log = write_log(tmp_path / "train.log", whole_log("2.4"), ["", f"ResourceExhaustedError: {other}"])
    answer = lowtide("explain", log)
    assert "1 of 2" in answer.out
    assert "2 of 2" in answer.out
    assert answer.out.count("batch 64") == 2


def test_a_compressed_log(lowtide, log_file, tmp_path):
    packed = tmp_path / "train.log.gz"
    packed.write_bytes(gzip.compress(log_file.read_bytes()))
    assert "Fragmentation" in lowtide("explain", packed).out


def test_standard_input(log_file):
    command = [sys.executable, "-m", "lowtide", "explain", "-", "--json"]
    environment = {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    done = subprocess.run(command, input=log_file.read_bytes(), capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads(done.stdout)["target"] == "standard input"


def test_the_page(lowtide, refused, log_file, tmp_path):
    page = tmp_path / "why.html"
    answer = lowtide("explain", log_file, "--html", page)
    assert f"wrote {page}" in answer.err
    assert "Fragmentation: 50 MiB were free" in page.read_text()
    assert "--force" in refused("explain", log_file, "--html", page)
    assert lowtide("explain", log_file, "--html", page, "--force").code == 1


def test_a_log_in_which_memory_did_not_run_out(refused, tmp_path):
    line = refused("explain", write_log(tmp_path / "train.log", ["Epoch 1/3", "done"]))
    assert "no message in this log, 2 lines, says that memory ran out" in line
    assert "OOM when allocating tensor" in line
    assert "empty" in refused("explain", write_log(tmp_path / "empty.log", []))


def test_a_log_in_which_memory_may_have_run_out_says_what_to_look_at(refused, tmp_path):
    def asked(*lines: str) -> str:
        return refused("explain", write_log(tmp_path / "train.log", list(lines)))

    assert "nvidia-smi" in asked("Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED")
    assert "kernel died" in asked("The kernel appears to have died. It will restart automatically.")
    crashed = asked("Fatal Python error: Segmentation fault", "exited with SIGSEGV", "Segmentation fault (core dumped)")
    assert crashed.count("crashed without a reason") == 1
    went_on = ["failed to allocate 2G (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY", "loss: 0.3"]
    assert "training went on" in asked(*went_on)


def test_an_archive_or_a_model_says_what_to_do(refused, tmp_path):
    archive = tmp_path / "logs.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("train.txt", OOM)
    assert f"unzip -p {archive} | lowtide explain -" in refused("explain", archive)
    model = archive.rename(tmp_path / "model.keras")
    assert f"lowtide predict {model}" in refused("explain", model)


def test_other_files_are_one_line(refused, log_file, tide_file, tmp_path):
    tide_file.write_bytes(tide_file.read_bytes()[:-40])
    assert "not a tide" in refused("explain", tide_file)
    renamed = tide_file.rename(tmp_path / "step.bin")
    assert "not a tide" in refused("explain", renamed)
    empty = tmp_path / "empty.tide"
    empty.write_bytes(b"")
    assert "not a tide" in refused("explain", empty)
    binary = tmp_path / "model.weights"
    binary.write_bytes(bytes(range(256)) * 20)
    assert "neither a tide nor a log" in refused("explain", binary)
    assert "No such file" in refused("explain", tmp_path / "nowhere.log")
    assert "Is a directory" in refused("explain", tmp_path)
    assert "--svg" in refused("explain", log_file, "--svg", tmp_path / "a.svg")
    assert "--budget" in refused("explain", log_file, "--budget", "8GiB")


def test_tensorflow_is_not_imported(log_file):
    code = f"import sys, lowtide.cli\ntry: lowtide.cli.main(['explain', {str(log_file)!r}])\n"
    code += "except SystemExit as end: print('tensorflow' in sys.modules, end.code, file=sys.stderr)"
    environment = {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == "False 1\n"


def test_a_file_that_cannot_be_read_says_what_to_give(refused, tmp_path):
    (tmp_path / "train.log").write_text("step 1")
    assert f"did you mean {tmp_path / 'train.log'}?" in refused("explain", tmp_path / "trian.log")
    assert "give a .tide or .plan file, or a log" in refused("explain", tmp_path)


def test_a_mistake_on_the_line_of_the_log_is_named(lowtide, log_file):
    script = log_file.with_name("train.py")
    lines = ["import tensorflow as tf", *[""] * 15, "data = tf.data.Dataset.range(9).batch(32).shuffle(5)"]
    script.write_text("\n".join(lines))
    os.utime(script, (1000, 1000))
    answer = lowtide("explain", log_file)
    text = " ".join(answer.out.split())
    assert "in the code LT203 at train.py:17: shuffle after batch" in text
    assert "lowtide doctor --explain LT203" in text
    (shortage,) = json.loads(lowtide("explain", log_file, "--json").out)["shortages"]
    assert [(each["code"], each["source"]) for each in shortage["mistakes"]] == [("LT203", "train.py:17")]
    # Edited since: its lines may be others.
    os.utime(script, (log_file.stat().st_mtime + 10,) * 2)
    assert "LT203" not in lowtide("explain", log_file).out
