"""What is shown of training runs with hand-made histories."""

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import lowtide
from lowtide.errors import LowtideError
from lowtide.run.train import decisions
from lowtide.run.train.history import EpochEnded, RunEnded, TrainingEnded, TrainingStarted
from lowtide.run.train.run_directory import RunDirectory
from lowtide.sources.graphs.files import RUN_HISTORY, find_files
from lowtide.view.page_data import training_run as page
from lowtide.view.page_data.training_run import training_run_data
from lowtide.view.reports.training_run import (
    CAUSE_COLOURS,
    CAUSES,
    TrainingRunReport,
    describe_checkpoint,
    read_run_report,
)
from lowtide.view.terminal.training_run import TerminalTrainingRun
from tests.training_runs import BEGAN, GIB, checkpoint, ended, epoch, finished_run, long_run, started, write_run


@pytest.fixture
def report_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def read(events, **options) -> TrainingRunReport:
        write_run(tmp_path / "runs" / "a", events, **options)
        return read_run_report(tmp_path / "runs" / "a")

    return read


def text_of(report: TrainingRunReport, width: int = 80) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(TerminalTrainingRun(report))
    return console.export_text()


def test_every_cause_has_words_and_a_colour() -> None:
    assert set(decisions.CAUSES) < set(CAUSES) == set(CAUSE_COLOURS)


def test_the_files_of_a_run_are_found_by_their_names(report_of, tmp_path: Path) -> None:
    report_of(finished_run())
    assert RunDirectory(tmp_path).history.path.name == RUN_HISTORY
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / RUN_HISTORY).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in find_files(tmp_path)] == ["runs/a/history.jsonl"]


def test_the_attempts_of_a_run(report_of) -> None:
    report = report_of(finished_run())
    assert (report.state, report.resume_command, report.folder) == ("finished", None, "runs/a")
    assert [(each.number, each.cause, each.origin, each.seconds) for each in report.attempts] == [
        (1, "device memory", "the start", 120),
        (2, "killed", "step 150", 79),
        (3, "interrupted", "step 200", 219),
        (4, "finished", "step 450", 125),
    ]
    changes = [each.decision and each.decision.change for each in report.attempts]
    assert changes == ["steps are planned for 7.44 GiB", "the same settings, from the last checkpoint", None, None]
    assert report.state_line == "Finished after 600 steps in 4 attempts, 9 min 03 s"
    assert report.progress_line == "6 of 6 epochs, loss 0.3, accuracy 0.9, val_loss 0.36"
    assert report.checkpoint_line == "step 600: 100 MiB, written in 0.4 s, end of an epoch"


def test_a_checkpoint_beside_the_training_says_how_long_the_training_waited(report_of) -> None:
    last = checkpoint(1, 10, 600)
    for blocked, words in ((None, ""), (0.1, ", of which the training waited 0.1 s"), (0.5, "")):
        line = describe_checkpoint(replace(last, blocked_seconds=blocked))
        assert line == f"100 MiB, written in 0.4 s{words}, 5 minutes"


def test_the_page_gets_times_amounts_and_columns(report_of) -> None:
    data = training_run_data(report_of(finished_run()))
    first, *_, last = data["attempts"]
    assert (first["began"], first["ended"]) == (BEGAN, BEGAN + 120)
    assert first["restored_steps"] is None
    assert last["restored_steps"] == 450
    assert [tick["steps"] for tick in first["checkpoints"]] == [100, 150]
    assert first["explanation"] == "the step is too large: 480.5 MiB was asked for"
    assert set(data["causes"]) == {"device memory", "killed", "interrupted", "finished"}
    epochs = data["epochs"]
    assert epochs["attempt"] == [1, 2, 3, 3, 4, 4]
    assert epochs["budget"]["values"] == [8 * GIB, *[int(7.44 * GIB)] * 5]
    assert epochs["device"]["values"][0] == 7 * GIB
    assert epochs["process"]["values"][0] == 8 * GIB
    assert {each["name"]: each["values"] for each in epochs["metrics"]}["loss"] == [0.9, 0.7, 0.5, 0.4, 0.35, 0.3]
    assert [note["text"][:8] for note in data["notes"]] == ["the data"]
    assert [answer["value"] for answer in data["answers"]] == ["Finished", "600 steps", "7.3 GiB", "step 600"]
    assert dict(data["options"])["script"] == "train.py --epochs 6"


def test_a_run_without_events(report_of) -> None:
    report = report_of([])
    data = training_run_data(report)
    assert data["attempts"] == []
    assert data["epochs"]["epoch"] == []
    assert [answer["reason"] for answer in data["answers"]] == ["nothing has been started", "no training has begun"]
    assert "lowtide train --resume runs/a" in text_of(report)


def test_an_attempt_that_runs_ends_now(report_of, tmp_path: Path) -> None:
    assert report_of(finished_run()[:3]).attempts[0].cause == "lost"
    directory = RunDirectory(tmp_path / "runs" / "a")
    directory.lock()
    try:
        report = read_run_report(directory.folder)
        data = training_run_data(report)
    finally:
        directory.unlock()
    assert (report.state, report.resume_command) == ("running", None)
    assert data["attempts"][0]["cause"] == "running"
    assert data["attempts"][0]["ended"] == data["now"] == report.now
    # The lock is not taken by looking.
    directory.lock()
    directory.unlock()


def test_a_process_that_was_killed_is_not_running(report_of, tmp_path: Path) -> None:
    report_of(finished_run()[:3])
    script = (
        "import sys, time; from pathlib import Path; from lowtide.run.train.run_directory import RunDirectory\n"
        "RunDirectory(Path(sys.argv[1])).lock(); print(); sys.stdout.flush(); time.sleep(600)"
    )
    folder = tmp_path / "runs" / "a"
    surroundings = os.environ | {"PYTHONPATH": str(Path(lowtide.__file__).parent.parent)}
    process = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, env=surroundings)
    try:
        process.stdout.readline()
        assert read_run_report(folder).state == "running"
    finally:
        process.kill()
        process.communicate()
    report = read_run_report(folder)
    assert (report.state, report.attempts[0].cause) == ("lost", "lost")
    assert report.resume_command == "lowtide train --resume runs/a"


def test_fifty_attempts(report_of) -> None:
    report = report_of(long_run())
    assert len(training_run_data(report)["attempts"]) == 50
    assert report.state == "failed"
    lines = text_of(report, width=120).splitlines()
    assert sum("→ the same settings" in line for line in lines) == 50
    assert all(len(line) <= 120 for line in lines)


def test_a_run_that_was_given_up_says_what_to_do(report_of) -> None:
    events = finished_run()[:6]
    advice = events[-1].explanation[1:]
    report = report_of([*events, RunEnded(attempt=1, time=BEGAN + 130, status="failed", exit_code=1)])
    assert (report.advice, training_run_data(report)["advice"]) == (advice, advice)
    assert "what to do    use a smaller batch" in text_of(report)


def test_a_run_that_goes_on_needs_no_advice(report_of) -> None:
    assert report_of(finished_run()).advice == ()


def test_damaged_lines_are_passed_over(report_of, tmp_path: Path) -> None:
    report_of(finished_run())
    path = tmp_path / "runs" / "a" / "history.jsonl"
    lines = path.read_text().splitlines()
    # Cut off, of another version that lacks fields, no JSON at all; and the first line of the third attempt is gone.
    kept = [line for line in lines if '"AttemptStarted", "attempt": 3' not in line]
    damage = [lines[0][:40], '{"kind": "EpochEnded", "attempt": 2}', "[1]", "\x00\x00"]
    path.write_text("\n".join([kept[0], *damage, *kept[1:]]) + "\n" + lines[-1][:30])
    report = read_run_report(path.parent)
    assert [(each.number, each.cause) for each in report.attempts] == [
        (1, "device memory"),
        (2, "killed"),
        (3, "interrupted"),
        (4, "finished"),
    ]
    assert report.state == "finished"


def test_an_attempt_of_which_only_the_end_is_left_began_before_it(report_of) -> None:
    (attempt,) = report_of([ended(3, 100, 60, "killed", "killed")]).attempts
    assert (attempt.number, attempt.began, attempt.seconds) == (3, BEGAN + 40, 60)


@pytest.mark.parametrize("content", ["{}", "[]", '{"schema_version": 1}', '{"schema_version": 1, "script": {"a": 1}}'])
def test_a_record_of_another_program_is_refused(report_of, tmp_path: Path, content: str) -> None:
    report_of([])
    (tmp_path / "runs" / "a" / "run.json").write_text(content)
    with pytest.raises(LowtideError, match="damaged"):
        read_run_report(tmp_path / "runs" / "a")


def test_a_loss_that_is_not_a_number_is_nothing_to_the_page(report_of) -> None:
    events = [*started(1, 0), *epoch(1, 10, 0, float("nan"), GIB), *epoch(1, 20, 1, float("inf"), GIB)]
    data = training_run_data(report_of(events))
    json.dumps(data, allow_nan=False)
    assert [each["values"] for each in data["epochs"]["metrics"]] == [[None, None], [None, None]]


def test_of_an_epoch_that_was_trained_again_the_last_time_counts(report_of) -> None:
    events = [*started(1, 0), epoch(1, 10, 0, 0.9, GIB)[0], *started(2, 20), epoch(2, 40, 0, 0.8, GIB)[0]]
    (shown,) = report_of(events).epochs
    assert (shown.attempt, shown.logs["loss"]) == (2, 0.8)


def test_without_a_loss_the_first_metric_is_drawn(report_of) -> None:
    events = [event for event in finished_run() if not isinstance(event, EpochEnded)]
    common = {"training": 0, "epochs": None, "steps_done": 1, "step_seconds": None}
    # A number of a type that JSON does not know is recorded as text.
    events.append(EpochEnded(attempt=4, time=BEGAN, epoch=0, logs={"name": "x", "reward": "1.5"}, **common))
    report = report_of(events)
    assert report.metrics == ["reward"]
    assert training_run_data(report)["epochs"]["metrics"][0]["values"] == [1.5]


def test_a_run_without_a_supervisor(report_of) -> None:
    fields = {"attempt": 1, "time": BEGAN, "training": 0, "steps_done": 0}
    begun = TrainingStarted(**fields, epoch=0, step=0, epochs=1, steps=10)
    over = TrainingEnded(**(fields | {"time": BEGAN + 60, "steps_done": 10}))
    report = report_of([begun, *epoch(1, 50, 0, 0.5, GIB), over])
    assert (report.state, report.attempts[0].cause, report.attempts[0].seconds) == ("finished", "finished", 60)


def test_a_supervised_run_that_continues_without_a_supervisor(report_of) -> None:
    again = {"attempt": 5, "training": 0, "steps_done": 600}
    begun = TrainingStarted(**again, epoch=6, step=0, epochs=7, steps=100, checkpoint="000000000600")
    report = report_of([*finished_run(), begun, TrainingEnded(**again)])
    assert (report.state, report.attempts[-1].cause) == ("finished", "finished")


def test_a_run_without_a_supervisor_is_continued_by_its_script(report_of) -> None:
    begun = TrainingStarted(
        attempt=1, time=BEGAN, training=0, epoch=0, step=0, epochs=1, steps=10, steps_done=0, checkpoint=None
    )
    report = report_of([begun])
    assert (report.state, report.resume_command) == ("lost", "python train.py --epochs 6")


def test_long_lists_are_thinned_out(report_of, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_EPOCHS", 3)
    monkeypatch.setattr(page, "_TICKS", 2)
    data = training_run_data(report_of(finished_run()))
    assert data["epochs"]["epoch"] == [0, 2, 5]
    assert data["epochs"]["total"] == 6
    third = data["attempts"][2]
    assert ([tick["steps"] for tick in third["checkpoints"]], third["checkpoint_count"]) == ([300, 450], 3)


def test_the_terminal_tells_the_story(report_of) -> None:
    text = text_of(report_of(finished_run()[:-6]))
    for line in (
        "ResourceExhaustedError: OOM when allocating tensor with",
        "the step is too large: 480.5 MiB was asked for",
        "→ steps are planned for 7.44 GiB: the device's memory ran out",
        "interrupted",
        "note         the data is a Python generator",
    ):
        assert line in text
    assert all(len(line) <= 80 for line in text.splitlines())
