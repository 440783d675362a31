"""lt.measure: the record is the allocator's own, it has names, and nothing is changed by making it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import lowtide as lt

CHILD = Path(__file__).with_name("measure_child.py")
LIMIT_MEBIBYTES = 512


class Seen(NamedTuple):
    folder: Path
    seen: dict[str, Any]

    def tide(self, name: str) -> lt.Tide:
        return lt.Tide.load(self.folder / f"{name}.tide")

    def error(self, name: str) -> str:
        kind, line = self.seen[name]
        assert kind == "LowtideError", line
        assert "\n" not in line
        return line


@pytest.fixture(scope="module")
def processes(tmp_path_factory) -> dict[str, Seen]:
    """Run both side by side: one with the recording allocator, and one that has to start children."""
    started = {}
    for way in ("here", "there"):
        folder = tmp_path_factory.mktemp(way)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(Path(lt.__file__).parents[1]), str(CHILD.parent)]),
            "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT_MEBIBYTES),
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        environment.pop("TF_CPU_ALLOCATOR_USE_BFC", None)
        if way == "here":
            environment["TF_CPU_ALLOCATOR_USE_BFC"] = "true"
        command = [sys.executable, str(CHILD), way, str(folder)]
        started[way] = (
            folder,
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True),
        )
    printed = {way: process.communicate()[0] for way, (_, process) in started.items()}
    for way, (_, process) in started.items():
        assert process.returncode == 0, printed[way]
    return {way: Seen(folder, json.loads((folder / "seen.json").read_text())) for way, (folder, _) in started.items()}


@pytest.fixture
def here(processes) -> Seen:
    return processes["here"]


@pytest.fixture
def there(processes) -> Seen:
    return processes["there"]


def assert_holds_together(tide: lt.Tide, steps: int = 3) -> None:
    """What is true of every recorded tide."""
    assert tide.method == "recorded"
    peaks = {each.step: each.peak_bytes for each in tide.recording.steps}
    assert len(peaks) == steps
    assert tide.peak_bytes == peaks[tide.recording.step] == tide.curve.bytes_in_use.max()
    assert tide.safe_bytes >= max(peaks.values())
    # The buffers are the bytes in use, from the first event to the last.
    buffers = tide.buffers
    for event in (0, tide.peak_event, len(tide.curve) - 1):
        alive = (buffers.born <= event) & (event < buffers.died)
        assert buffers.allocated[alive].sum() == tide.curve.bytes_in_use[event]


@pytest.mark.parametrize("way", ["here", "there"])
def test_a_model(processes, way):
    tide, seen = processes[way].tide("model"), processes[way].seen
    assert_holds_together(tide)
    assert tide.batch_size == 32
    layers = {share.layer for share in tide.by_layer()}
    assert {"filters", "norm", "out"} <= layers
    kinds = tide.breakdown()
    assert min(kinds[kind] for kind in ("weights", "optimizer", "input")) > 0
    assert kinds["gradients"] + kinds["activations"] > 0
    assert seen["model unchanged"]


def test_the_variables_of_a_model_are_all_there(here):
    tide = here.tide("model")
    assert tide.breakdown()["weights"] >= here.seen["weights"]


def test_the_current_stage_is_shown(here):
    assert here.seen["stages"][0] == "running the first step"
    assert "recording 3 steps" in here.seen["stages"]


def test_measuring_with_user_data(here):
    tide = here.tide("data")
    assert_holds_together(tide, steps=2)
    assert (tide.target, tide.batch_size) == ("mine", 24)
    assert "has only 40 rows" in here.error("few rows")


def test_a_dataset_gives_its_first_batch(here):
    tide = here.tide("dataset")
    assert_holds_together(tide, steps=1)
    assert tide.batch_size == 24
    assert "yields no element" in here.error("no element")


def test_the_peaks_are_those_of_the_allocators_own_statistics(here):
    tide = here.tide("step")
    assert_holds_together(tide)
    # The first step is number 1.
    read = dict(enumerate(here.seen["peaks"], start=1))
    assert {each.step: each.peak_bytes for each in tide.recording.steps} == {
        each.step: read[each.step] for each in tide.recording.steps
    }
    assert len(read) == tide.recording.steps[-1].step
    assert tide.batch_size == 256


@pytest.mark.parametrize("name", ["fresh table", "table"])
def test_a_variable_that_is_copied_when_it_is_read(here, name):
    tide = here.tide(name)
    assert_holds_together(tide)
    assert [each.peak_bytes for each in tide.recording.steps] == here.seen[name]
    assert [held.name for held in tide.top(20)].count("table") == 1


def test_lines_of_the_program_are_known(here):
    lines = {held.source for held in here.tide("step").top(5)}
    assert any(line is not None and line.startswith("measure_child.py:") for line in lines)


def test_variables_that_the_first_call_creates_are_as_they_were_created(here):
    assert here.seen["step unchanged"]
    assert sum(value != 0 for value in here.seen["slots"]) == 1


def test_a_step_that_runs_op_by_op(here):
    assert_holds_together(here.tide("eager"))
    assert here.seen["eager unchanged"]


def test_an_error_of_the_step_is_raised_unchanged_and_leaves_no_state(here):
    assert here.seen["failing"] == ["ValueError", "this step is broken"]
    assert here.seen["unchanged after an error"]


@pytest.mark.parametrize("name", ["compiled", "several"])
def test_other_models(here, name):
    assert_holds_together(here.tide(name))


def test_other_contents_of_the_allocator_are_reported(here):
    tide = here.tide("beside")
    assert_holds_together(tide)
    (note,) = tide.notes
    assert "MiB of what the allocator holds does not seem to belong to the step" in note
    # A tensor and a variable of 2 MiB each.
    assert float(note.split()[0]) >= 4


def test_there_is_one_profiler(here):
    assert "a profiler is running in this process" in here.error("profiler")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("not compiled", "the model is not compiled"),
        ("no step", "only a compiled Keras model or a function can be measured"),
        ("no steps", "at least one step has to be recorded"),
        ("no batch", "pass batch_size="),
    ],
)
def test_wrong_arguments(here, name, line):
    assert line in here.error(name)


def test_functions_and_layers_of_a_module_are_measured_in_a_child(there):
    tide = there.tide("step")
    assert_holds_together(tide)
    assert (tide.target, tide.batch_size) == ("step", 256)
    assert "wide" in {share.layer for share in tide.by_layer()}
    assert tide.recording.limit_bytes == LIMIT_MEBIBYTES << 20
    own = there.tide("own")
    assert_holds_together(own)
    assert "doubled" in {share.layer for share in own.by_layer()}


@pytest.mark.parametrize("name", ["local", "generator", "local layer"])
def test_a_target_that_cannot_be_rebuilt_gets_advice_on_how_to_record_it(there, name):
    line = there.error(name)
    assert "allocator keeps no record" in line
    assert "lowtide run" in line
    assert "TF_CPU_ALLOCATOR_USE_BFC=true" in line


def test_errors_of_a_child_come_back_in_one_line(there):
    assert "ValueError: this step is broken" in there.error("broken")
    line = there.error("greedy")
    assert "greedy ran out of memory while it was measured: 16 GiB were requested" in line


def test_no_child_is_left(there):
    assert there.seen.get("no children")
