"""Real programs under the recorder, whose record agrees with the allocator's statistics that the programs print."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from lowtide.run.record import RunRecord, load_record
from lowtide.sources.profiles.xplane import read_profile
from lowtide.tide.tide import Tide
from tests.children import run_python

HERE = Path(__file__).parent
# A name, a program and its arguments; FOLDER is one that is the program's own.
PROGRAMS = {
    "fit": ("record_fit",),
    "compiled fit": ("record_compiled_fit",),
    "train_on_batch": ("record_train_on_batch", "float32"),
    "bfloat16": ("record_train_on_batch", "mixed_bfloat16"),
    "graph": ("record_loop", "graph"),
    "xla": ("record_loop", "xla"),
    "eager": ("record_loop", "eager"),
    "tape": ("record_loop", "tape"),
    "session": ("record_session",),
    "gan": ("record_gan",),
    "inside": ("record_inside",),
    "strategy": ("record_strategy",),
    "profiler": ("record_profiler", "FOLDER"),
    "signature": ("record_signature", "FOLDER"),
    "segmentation fault": ("record_dying", "segmentation fault"),
    "kill": ("record_dying", "kill"),
    "at once": ("record_dying", "at once"),
    "code": ("record_dying", "code"),
}
DYING = [name for name, (program, *_) in PROGRAMS.items() if program == "record_dying"]
LIVING = [name for name in PROGRAMS if name not in DYING]
# Fourteen steps, each watched around just what the recorder takes for one.
EXACT = [name for name in LIVING if name not in ("fit", "compiled fit", "inside", "profiler")]
KERAS = ["compiled fit", "train_on_batch", "bfloat16", "graph", "xla"]


class Run(NamedTuple):
    exit_code: int
    signal: int | None
    printed: Any
    """The last line that the program printed, as JSON."""
    record: RunRecord
    tide: Tide | None
    predicted: Tide | None
    failure: str | None
    """What went wrong in the recorder."""
    folder: Path


def start(folder: Path, program: str, *arguments: str) -> Run:
    folder.mkdir()
    (folder / "own").mkdir()
    words = [str(folder / "own") if argument == "FOLDER" else argument for argument in arguments]
    done = run_python(HERE / "record_child.py", folder, HERE / "programs" / f"{program}.py", *words)
    failure = folder / "recorder-error.txt"
    lines = done.stdout.splitlines()
    record = load_record(folder)
    assert record is not None, done.stderr
    return Run(
        **json.loads((folder / "ending.json").read_text()),
        printed=json.loads(lines[-1]) if lines else None,
        record=record,
        tide=load_tide(folder / "step.tide"),
        predicted=load_tide(folder / "predicted.tide"),
        failure=failure.read_text() if failure.exists() else None,
        folder=folder,
    )


def load_tide(path: Path) -> Tide | None:
    return Tide.load(path) if path.exists() else None


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("record")
    with ThreadPoolExecutor(2) as pool:
        started = {name: pool.submit(start, folder / name, *words) for name, words in PROGRAMS.items()}
    return {name: run.result() for name, run in started.items()}


def peaks(run: Run) -> dict[int, int]:
    return {step.step: step.peak_bytes for step in run.tide.recording.steps}


def own_peaks(run: Run, steps) -> dict[int, int]:
    """The same as the program measured it."""
    return {step: run.printed["peaks"][step - 1] for step in steps}


@pytest.mark.parametrize("name", LIVING)
def test_the_program_ends_as_it_would_and_its_step_is_known(runs, name):
    run = runs[name]
    assert run.failure is None
    assert (run.exit_code, run.signal) == (0, None)
    tide = run.tide
    assert tide.method == "recorded"
    assert tide.recording.step in peaks(run)
    assert peaks(run)[tide.recording.step] == tide.peak_bytes == tide.curve.bytes_in_use.max()
    assert tide.safe_bytes >= max(peaks(run).values())
    assert run.record.steps == len(run.printed["peaks"])


@pytest.mark.parametrize("name", LIVING)
def test_the_buffers_at_each_event_add_up_to_the_curve(runs, name):
    tide = runs[name].tide
    rows = tide.buffers
    change = np.zeros(len(tide.curve) + 1, np.int64)
    np.add.at(change, rows.born, rows.allocated)
    np.add.at(change, rows.died, -rows.allocated)
    assert np.cumsum(change)[:-1].tolist() == tide.curve.bytes_in_use.tolist()


@pytest.mark.parametrize("name", EXACT)
def test_the_peaks_are_the_allocators_own(runs, name):
    run = runs[name]
    assert list(peaks(run)) == [11, 12, 13]
    assert peaks(run) == own_peaks(run, peaks(run))


def test_in_fit_a_step_includes_its_callbacks_and_evaluations_are_not_steps(runs):
    run = runs["fit"]
    assert list(peaks(run)) == [11, 12, 13]
    own = own_peaks(run, peaks(run))
    assert all(peaks(run)[step] >= own[step] for step in own)
    kinds = {run.tide.buffers.kind_of(row) for row in range(len(run.tide.buffers))}
    assert {"weights", "optimizer", "gradients", "input"} <= kinds


def test_a_short_run_has_its_first_steps_recorded(runs):
    run = runs["inside"]
    assert list(peaks(run)) == [1, 2]
    # The program's first step makes the variables, too.
    assert peaks(run)[1] <= run.printed["peaks"][0]
    assert peaks(run)[2] == run.printed["peaks"][1]
    # The model is gone when its step is looked at.
    assert "wide" in run.tide.buffers.layer


@pytest.mark.parametrize("name", ["fit", *KERAS])
def test_the_batch_is_found(runs, name):
    assert runs[name].tide.batch_size == runs[name].printed["batch"]


@pytest.mark.parametrize("name", KERAS)
def test_bytes_at_the_peak_belong_to_layers_variables_or_the_batch(runs, name):
    tide = runs[name].tide
    held = tide.top(len(tide.buffers))
    known = sum(each.bytes for each in held if each.layer is not None or each.op == "Variable" or each.kind == "input")
    assert known >= 0.95 * tide.peak_bytes
    assert runs[name].predicted is not None


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("fit", {"wide", "head"}),
        ("compiled fit", {"wide", "head"}),
        ("train_on_batch", {"first", "second", "pool", "head"}),
        ("bfloat16", {"first", "second", "pool", "head"}),
        ("graph", {"wide", "deep", "head"}),
        ("xla", {"wide", "deep", "head"}),
        ("eager", {"wide", "deep", "head"}),
        ("tape", {"wide", "deep", "head"}),
        ("gan", {"generator_hidden", "generator_out", "critic_hidden", "critic_out"}),
        ("inside", {"wide"}),
        ("strategy", {"wide"}),
    ],
)
def test_layers(runs, name, layers):
    assert layers <= set(runs[name].tide.buffers.layer)


@pytest.mark.parametrize("name", ["train_on_batch", "bfloat16", "graph", "tape", "gan", "strategy"])
def test_kinds(runs, name):
    rows = runs[name].tide.buffers
    kinds = {rows.kind_of(row) for row in range(len(rows))}
    assert {"weights", "optimizer", "activations", "gradients", "input"} <= kinds


def test_the_block_of_a_compiled_step_is_shown_by_its_contents(runs):
    rows = runs["xla"].tide.buffers
    inside = [row for row in range(len(rows)) if rows.op[row] != "Variable" and rows.kind_of(row) != "input"]
    assert any(rows.kind_of(row) == "activations" and rows.layer[row] in ("wide", "deep") for row in inside)


@pytest.mark.parametrize("name", KERAS)
def test_a_record_has_no_events_of_thread_pools(runs, name):
    # They would be about half of all events, and nothing reads them. A few slip in before they are switched off.
    for window in runs[name].record.windows:
        space = xplane_pb2.XSpace.FromString((runs[name].folder / window.profile).read_bytes())
        names = [
            plane.event_metadata[event.metadata_id].name
            for plane in space.planes
            for line in plane.lines
            for event in line.events
        ]
        assert sum(each.startswith("ThreadpoolListener") for each in names) < len(names) / 20


def test_source_lines_of_a_custom_loop(runs):
    text = (HERE / "programs" / "record_loop.py").read_text().splitlines()
    first = text.index("def forward(x):") + 1
    last = text.index("    return loss") + 1
    lines = [each.source for each in runs["graph"].tide.top(24) if each.source is not None]
    assert lines
    for source in lines:
        name, _, line = source.rpartition(":")
        assert name.endswith("record_loop.py")
        assert first <= int(line) <= last


def test_two_functions_make_one_step(runs):
    calls = runs["gan"].record.windows[-1].calls
    assert [(call.step, call.function.partition("/")[0]) for call in calls] == [
        (step, function) for step in (11, 12, 13) for function in ("teach_critic", "teach_generator")
    ]


def test_a_session_counts_the_runs_that_train(runs):
    rows = runs["session"].tide.buffers
    assert any(rows.kind_of(row) == "gradients" and rows.name[row].startswith("gradients/") for row in range(len(rows)))
    steps = {call.step for window in runs["session"].record.windows for call in window.calls}
    assert steps == {1, 2, 11, 12, 13}


def test_the_scripts_own_profiler_comes_first(runs):
    run = runs["profiler"]
    assert run.printed["profiles"] == 1
    assert list(peaks(run)) == [13, 14, 15]
    assert peaks(run) == own_peaks(run, peaks(run))
    assert any("profiler" in note for note in run.tide.notes)


def test_a_signature_is_called_as_ever(runs):
    assert runs["signature"].printed["outputs"] == ["out"]


@pytest.mark.parametrize(
    ("name", "exit_code", "number"),
    [
        ("segmentation fault", -signal.SIGSEGV, signal.SIGSEGV),
        ("kill", -signal.SIGKILL, signal.SIGKILL),
        ("at once", 7, None),
        ("code", 3, None),
    ],
)
def test_a_process_ends_as_it_would_and_leaves_its_record(runs, name, exit_code, number):
    run = runs[name]
    assert run.failure is None
    assert (run.exit_code, run.signal) == (exit_code, number)
    assert [[call.step for call in window.calls] for window in run.record.windows] == [[1, 2], [11, 12, 13]]
    for window in run.record.windows:
        assert len(read_profile(run.folder / window.profile).allocations)


def test_a_process_that_has_a_moment_left_says_what_its_step_took(runs):
    for name in ("segmentation fault", "code"):
        assert list(peaks(runs[name])) == [11, 12, 13]
    for name in ("kill", "at once"):
        assert runs[name].tide is None


def test_a_fork_ends_as_it_would_without_lowtide(runs):
    assert runs["code"].printed == signal.SIGABRT
