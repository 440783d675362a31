"""`lowtide train`, end to end: a script that is killed at any moment ends as one that was never disturbed."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lowtide.run.train.history import (
    AttemptEnded,
    CheckpointWritten,
    EpochEnded,
    Event,
    Failed,
    History,
    Note,
    Planned,
    TrainingStarted,
)
from tests.children import heed_interrupts

PROGRAMS = Path(__file__).parent / "train_scripts"
SAMPLES = 40


@dataclass(frozen=True)
class Trained:
    """What a run left."""

    code: int
    stderr: str
    result: dict
    samples: list[list[int]]
    events: list[Event]

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def epochs(self) -> list[list[int]]:
        """The samples of each epoch, sorted."""
        flat = [sample for batch in self.samples for sample in batch]
        return [sorted(flat[first : first + SAMPLES]) for first in range(0, len(flat), SAMPLES)]


def train(folder: Path, program: str, *arguments: str, options: tuple[str, ...] = ()) -> Trained:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "lowtide", "train", "--out", str(folder / "run"), *options]
    result = folder / "result.json"
    ended = subprocess.run(
        [*command, str(PROGRAMS / program), str(result), *arguments], capture_output=True, text=True, check=False,
        preexec_fn=heed_interrupts,
    )  # fmt: skip
    samples = Path(f"{result}.samples")
    return Trained(
        ended.returncode,
        ended.stderr,
        json.loads(result.read_text()) if result.exists() else {},
        [json.loads(line) for line in samples.read_text().splitlines()] if samples.exists() else [],
        History(folder / "run").read(),
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Trained]:
    """Runs without a fault, by their arguments; each is made once."""
    known: dict[tuple[str, ...], Trained] = {}

    class Runs(dict):
        def __missing__(self, arguments):
            self[arguments] = train(tmp_path_factory.mktemp("run"), "fit_program.py", *arguments)
            assert self[arguments].code == 0, self[arguments].stderr
            return self[arguments]

    return Runs(known)


@pytest.mark.parametrize(
    ("data", "model", "fault"),
    [
        ("arrays", "mlp", "SIGKILL@9"),
        ("arrays", "cnn", "SIGTERM@3"),
        ("dataset", "mlp", "SIGKILL@12"),
        ("dataset", "lstm", "SIGTERM@10"),
        ("feed", "mlp", "SIGTERM@17"),
        ("sequence", "mlp", "SIGTERM@8"),
    ],
)
def test_a_killed_run_ends_as_an_undisturbed_one(tmp_path, undisturbed, data, model, fault):
    plain = undisturbed[(data, "--model", model)]
    options = ("--checkpoint-steps", "4")
    ended = train(tmp_path, "fit_program.py", data, "--model", model, "--fault", fault, options=options)
    if fault.startswith("SIGTERM"):
        assert ended.code == 128 + signal.SIGTERM
        assert f"lowtide train --resume {tmp_path / 'run'}" in ended.stderr
        ended = train(tmp_path, "fit_program.py", data, "--model", model, "--fault", fault, options=options)
    assert ended.code == 0, ended.stderr
    assert ended.result == plain.result
    started = ended.of(TrainingStarted)
    assert len(started) == 2
    assert started[1].step > 0
    if fault.startswith("SIGTERM"):
        # Nothing was trained twice.
        assert ended.samples == plain.samples
    # After SIGKILL the steps since the last checkpoint are trained again, the same ones.
    assert ended.samples[-len(plain.samples) + started[1].steps_done :] == plain.samples[started[1].steps_done :]


@pytest.mark.parametrize("fault", ["SIGKILL@os.mkdir", "SIGKILL@open", "SIGKILL@os.rename", "SIGTERM@open"])
def test_a_run_that_is_killed_while_a_checkpoint_is_written_beside_it(tmp_path, undisturbed, fault):
    plain = undisturbed[("arrays", "--model", "wide")]
    arguments = ("arrays", "--model", "wide", "--fault", fault)
    ended = train(tmp_path, "fit_program.py", *arguments, options=("--checkpoint-steps", "4"))
    if fault.startswith("SIGTERM"):
        assert ended.code == 128 + signal.SIGTERM
        ended = train(tmp_path, "fit_program.py", *arguments, options=("--checkpoint-steps", "4"))
    assert ended.code == 0, ended.stderr
    assert ended.result == plain.result
    starts = [event.steps_done for event in ended.of(TrainingStarted)]
    written = [event for event in ended.of(CheckpointWritten) if event.attempt == 1]
    if fault.startswith("SIGKILL"):
        assert (starts, [event.steps_done for event in written]) == ([0, 4], [4])
    else:
        # The checkpoint that was being written is completed before the last one.
        assert [event.steps_done for event in written][:2] == [4, 8]
        assert written[-1].reason == "before the process ends"
        assert starts == [0, written[-1].steps_done]
    assert ended.samples[-len(plain.samples) + starts[1] :] == plain.samples[starts[1] :]


def test_a_disk_that_is_full_for_a_checkpoint_in_the_background(tmp_path):
    arguments = ("arrays", "--model", "wide", "--fault", "ENOSPC@4")
    ended = train(tmp_path, "fit_program.py", *arguments, options=("--checkpoint-steps", "4"))
    assert ended.code == 1
    assert "the same failure occurred twice at the same step" in ended.stderr
    assert [(event.error, event.steps_done) for event in ended.of(Failed)] == [("OSError", 4)] * 2
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


@pytest.mark.parametrize(("budget", "is_beside"), [("60MiB", False), ("120MiB", True)])
def test_a_checkpoint_is_written_beside_the_training_if_the_budget_has_room(tmp_path, budget, is_beside):
    options = ("--checkpoint-steps", "4", "--budget", budget)
    ended = train(tmp_path, "fit_program.py", "arrays", "--model", "wide", "--epochs", "2", options=options)
    assert ended.code == 0, ended.stderr
    assert [event.planned_bytes for event in ended.of(Planned)] == [None]
    written = {event.reason: event.blocked_seconds < event.seconds for event in ended.of(CheckpointWritten)}
    assert (written["every 4 steps"], written["end of the training"]) == (is_beside, False)


@pytest.mark.parametrize("data", ["arrays", "dataset"])
def test_a_seeded_script_has_the_results_of_plain_python(tmp_path, undisturbed, data):
    arguments = (data, "--model", "mlp")
    plain = tmp_path / "result.json"
    subprocess.run([sys.executable, str(PROGRAMS / "fit_program.py"), str(plain), *arguments], check=True)
    assert json.loads(plain.read_text()) == undisturbed[arguments].result
    samples = [json.loads(line) for line in Path(f"{plain}.samples").read_text().splitlines()]
    assert samples == undisturbed[arguments].samples


def test_control_c_shows_no_traceback(tmp_path):
    ended = train(tmp_path, "fit_program.py", "arrays", "--fault", "SIGINT@3")
    assert ended.code == 128 + signal.SIGINT
    assert [event.cause for event in ended.of(AttemptEnded)] == ["interrupted"]
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("lowtide  stopped after 3 steps; to continue: ")


def test_a_checkpoint_of_a_newer_version_is_refused_at_once(tmp_path):
    assert train(tmp_path, "fit_program.py", "arrays", "--fault", "SIGTERM@3").code == 128 + signal.SIGTERM
    for manifest in (tmp_path / "run" / "checkpoints").glob("*/manifest.json"):
        manifest.write_text(manifest.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    ended = train(tmp_path, "fit_program.py", "arrays", "--fault", "SIGTERM@3")
    assert ended.code == 1
    assert "LowtideError: the checkpoint was written by a newer version of lowtide" in ended.stderr
    assert "the recorder failed" not in ended.stderr
    assert len(ended.of(AttemptEnded)) == 2


def test_each_sample_is_trained_once_in_each_epoch(undisturbed):
    run = undisturbed[("dataset", "--model", "mlp")]
    assert run.epochs() == [list(range(SAMPLES))] * 3
    assert len({tuple(batch) for batch in run.samples}) == len(run.samples)
    assert [event.epoch for event in run.of(EpochEnded)] == [0, 1, 2]
    assert run.of(CheckpointWritten)[-1].reason == "end of the training"
    assert run.of(AttemptEnded)[-1].cause == "finished"


def test_a_finished_run_is_not_trained_again(tmp_path, undisturbed):
    first = train(tmp_path, "fit_program.py", "arrays", "--epochs", "1")
    again = train(tmp_path, "fit_program.py", "arrays", "--epochs", "1")
    assert (first.code, again.code) == (0, 0)
    assert again.samples == first.samples
    assert "finished" in again.stderr


def test_a_leak_is_named_and_the_process_starts_again_before_memory_runs_out(tmp_path):
    ended = train(tmp_path, "leak.py", options=("--budget", "40MiB"))
    assert ended.code == 0, ended.stderr
    assert ended.result == {"steps": 750}
    assert [event.cause for event in ended.of(AttemptEnded)] == ["restart", "finished"]
    note = ended.of(Note)[0].text
    assert "memory on the device grows by 64" in note
    assert "kept tensors" in note


def test_a_step_that_does_not_fit_is_planned_before_it_runs(tmp_path):
    ended = train(tmp_path, "large_batch.py", options=("--budget", "80MiB"))
    assert ended.code == 0, ended.stderr
    # The effective batch is the same.
    assert ended.result["steps"] == 4
    planned = ended.of(Planned)[-1]
    assert planned.predicted_bytes > planned.budget_bytes >= planned.planned_bytes
    assert [event.cause for event in ended.of(AttemptEnded)] == ["finished"]


def test_a_step_that_goes_on_after_its_memory_was_refused_is_ended(tmp_path):
    ended = train(tmp_path, "refused_loop.py", options=("--budget", "40MiB"))
    assert ended.code == 0, ended.stderr
    assert ended.result == {"steps": 5}
    first, last = ended.of(AttemptEnded)
    assert (first.cause, last.cause) == ("device memory", "finished")
    assert first.words.startswith("ResourceExhaustedError: the step was still running 15 seconds after")


def test_keep_going_continues_a_script_that_is_started_again(tmp_path):
    codes = []
    # After SIGINT the script trains again in the same process, as a notebook may.
    for stop in ("SIGTERM@6", "SIGINT@9", "SIGTERM@0"):
        command = [sys.executable, str(PROGRAMS / "keep_going.py"), str(tmp_path / "run"), stop]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=heed_interrupts)
        codes.append(ended.returncode)
        assert "steps 12" in ended.stdout or stop == "SIGTERM@6"
    assert codes == [128 + signal.SIGTERM, 0, 0], ended.stderr
    assert f"the run in {tmp_path / 'run'} began with other arguments, and continues" in ended.stderr
    assert "training 1 of the script had ended: its result is restored" in ended.stderr
    starts = [event for event in History(tmp_path / "run").read() if isinstance(event, TrainingStarted)]
    assert [(start.epoch, start.step) for start in starts] == [(0, 0), (1, 2), (2, 1)]
