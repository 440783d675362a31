"""Memory that is held outside of a recorded step is told apart from it, and scripts without a step are recorded."""

from dataclasses import replace

import pytest

from lowtide.oom.held_data import advise_on_data
from lowtide.run import outcome
from lowtide.run.chunks import follow
from lowtide.run.graph_names import ARRAY as ARRAY_NAME
from lowtide.run.graph_names import UNIDENTIFIED, GraphNames
from lowtide.run.launch import Ending
from lowtide.run.record import RunRecord, save_record
from lowtide.run.recorded_tide import choose_step, recorded_tide, whole_script
from lowtide.tide.columns import Building, ProcessMemory
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.owner import Owner
from lowtide.tide.tide import Tide
from lowtide.view.page_data.tide import tide_data
from lowtide.view.reports.tide import TideReport
from tests.unit.streams import Stream

MIB = 1 << 20
ARRAY = Owner("global `rows` of train.py", dtype="float64", shape=(8, 1 << 20), bytes=64 * MIB, source="train.py:3")
PROCESS = ProcessMemory(900 * MIB, 90 * MIB, (ARRAY,))


def tide_of(stream, chosen_from=choose_step):
    window, profile = stream.cut()
    stretches = follow([window], [profile], "cpu")
    return recorded_tide(
        *chosen_from(stretches),
        GraphNames(),
        target="train.py",
        batch_size=None,
        limit_bytes=None,
        building=Building(0, 0, 0, None),
        process=PROCESS,
    )


def held(stream, name, kind=OUTSIDE):
    return replace(stream.place(name, kind, path=f"global `{name}` of train.py"), source="train.py:12")


@pytest.fixture
def tide():
    """Before two steps: a kernel, data with a name and without one, and a batch that the first step frees."""
    stream = Stream()
    for name, size in (("kernel", 2), ("data", 64), ("captured", 4), ("pipeline", 8), ("batch", 1)):
        stream.allocate(name, size * MIB, "Fill")
    places = [held(stream, "data"), held(stream, "batch"), held(stream, "captured", "constants")]
    # Python holds the value of the variable too.
    places += [held(stream, "kernel"), stream.place("kernel", "weights")]
    for step in (1, 2):
        call = stream.begin(step, places=places if step == 1 else [])
        stream.allocate("activation", 3 * MIB)
        stream.free("activation")
        if step == 1:
            stream.free("batch")
        stream.end(call)
    return tide_of(stream)


def test_lasting_memory_that_is_not_of_the_step_is_held_outside_of_it(tide):
    named, unnamed = tide.held_outside
    assert (named.name, named.source) == ("global `data` of train.py", "train.py:12")
    assert (named.requested_bytes, unnamed.requested_bytes) == (64 * MIB, 8 * MIB)
    assert tide.breakdown()[OUTSIDE] == 72 * MIB
    assert tide.breakdown()["weights"] == 2 * MIB
    assert tide.breakdown()["constants"] == 4 * MIB
    assert tide.step_bytes == tide.peak_bytes - named.bytes - unnamed.bytes
    assert tide.to_dict()["held_outside"][0]["source"] == "train.py:12"


def test_a_prediction_is_compared_with_the_step_alone(tide):
    report = TideReport(tide, predicted=replace(tide, peak_bytes=tide.step_bytes, recording=None))
    assert report.gap == 0
    assert report.gap_text == "within 0.1% of what the step itself takes"
    assert report.to_dict()["predicted"]["gap"] == 0
    # The page draws it onto the recorded curve, which includes what is held outside.
    assert tide_data(report)["predicted"]["peak_bytes"] == tide.peak_bytes


def test_the_report_names_what_is_held_outside_and_says_what_to_do(tide):
    report = TideReport(tide)
    assert report.outside_lines[0] == "64 MiB by global `data` of train.py (Fill), float32 16777216, at train.py:12"
    assert any("lt.feed.arrays" in line for line in report.advice)
    assert report.array_lines == ["64 MiB by global `rows` of train.py, float64 8×1048576, at train.py:3"]
    assert report.process_line.startswith("resident memory of 900 MiB")


def test_the_memory_of_the_process_is_in_the_file(tide, tmp_path):
    tide.save(tmp_path / "step.tide")
    assert Tide.load(tmp_path / "step.tide").recording.process == PROCESS


def test_a_script_without_a_step_is_one_tide():
    stream = Stream()
    stream.allocate("data", 64 * MIB, "unknown")
    stream.mark(2)
    stream.places[2] = (held(stream, "data"),)
    stream.allocate("copy", 64 * MIB, "MakeIterator")
    stream.free("copy")
    tide = tide_of(stream, whole_script)
    assert tide.peak_bytes == 128 * MIB
    assert tide.recording.step is None
    assert tide.held_outside == ()
    report = TideReport(tide)
    assert report.recorded_line == "recorded over the whole script, which completed no training step"
    assert "global `data` of train.py" in report.held_lines[0]
    assert report.held_lines[1].startswith("64 MiB by an iterator over a dataset (MakeIterator)")
    assert any("copies the data once more, 64 MiB" in line for line in report.advice)


def test_results_that_are_alike_are_one_line_of_a_script_without_a_step():
    stream = Stream()
    for number in range(30):
        stream.allocate(f"kept {number}", 2 * MIB, "Mul")
    stream.allocate("large", 8 * MIB, "Sum")
    report = TideReport(tide_of(stream, whole_script))
    assert [line.partition(",")[0] for line in report.held_lines] == [
        "30 × 2 MiB by a result of Mul",
        "8 MiB by a result of Sum",
    ]


def test_memory_without_a_name_is_told_in_whole_sentences():
    stream = Stream()
    stream.allocate("data", 8 * MIB)
    stream.mark(2)
    tide = tide_of(stream, whole_script)
    for name, line in ((UNIDENTIFIED, "8 MiB from before"), (ARRAY_NAME, "8 MiB by an array from Python")):
        unnamed = replace(tide, buffers=replace(tide.buffers, name=[name]))
        assert TideReport(unnamed).held_lines[0].startswith(line)


@pytest.mark.parametrize("failure", [None, "Traceback\nImportError: no such name"])
def test_a_tide_without_names_says_why(tmp_path, monkeypatch, failure):
    stream = Stream()
    call = stream.begin(1)
    stream.allocate("activation", 3 * MIB)
    stream.end(call)
    window, profile = stream.cut()
    (tmp_path / "log").touch()
    save_record(RunRecord(None, (window,), (), 1, ()), tmp_path)
    if failure is not None:
        (tmp_path / "recorder-error.txt").write_text(failure)
    monkeypatch.setattr(outcome, "read_stretches", lambda windows, folder: follow(windows, [profile], "cpu"))
    tide = outcome.read_outcome(tmp_path, Ending(0, None, 1.0, tmp_path / "log"), "train.py").tide
    reason = "the process ended before" if failure is None else "please report this: ImportError: no such name"
    assert reason in tide.notes[-1]
    assert tide.notes[-1].endswith("so some names are missing")


def test_small_data_is_not_worth_advice():
    assert advise_on_data([Owner(op="unknown", bytes=MIB - 1)], [], MIB) == ()
    assert advise_on_data([Owner(op="MatMul", bytes=64 * MIB)], [], 64 * MIB) == ()
