"""The events of a run in words."""

from pathlib import Path

import pytest

from lowtide.run.train import history
from lowtide.run.train.narrator import Narrator

GIB = 1 << 30


def say(kind: str, **fields: object) -> tuple[str, ...]:
    return Narrator(Path("runs/a")).lines(getattr(history, kind)(attempt=2, **fields))


START = {"training": 0, "epoch": 0, "step": 0, "epochs": None, "steps": None, "steps_done": 0}
PLAN = {"predicted_bytes": 9 * GIB, "budget_bytes": 8 * GIB}
EPOCH = {"training": 0, "epoch": 2, "epochs": 10, "steps_done": 3, "logs": {"loss": 0.5}}
END = {"exit_code": 1, "signal": None, "seconds": 185.0}


@pytest.mark.parametrize(
    ("kind", "fields", "line"),
    [
        ("AttemptStarted", {"command": ("-m", "train"), "budget_bytes": None}, "attempt 2: -m train"),
        ("AttemptStarted", {"command": ("train.py",), "budget_bytes": GIB}, "attempt 2: train.py, within 1 GiB"),
        (
            "AttemptStarted",
            {"command": ("train.py", "x"), "budget_bytes": GIB, "changes": ("this", "that")},
            "attempt 2: train.py x; changed: this, that",
        ),
        ("TrainingStarted", START, "the training begins; there is no checkpoint to continue from"),
        ("TrainingStarted", START | {"training": 1, "epochs": 3}, "training 2 begins: 3 epochs"),
        (
            "TrainingStarted",
            START | {"epoch": 3, "step": 120, "epochs": 5, "steps": 400, "steps_done": 1320, "checkpoint": "x"},
            "restored the checkpoint of step 1,320: continues in epoch 4, after step 120 of it",
        ),
        (
            "TrainingStarted",
            START | {"epoch": 3, "steps_done": 1200, "checkpoint": "x"},
            "restored the checkpoint of step 1,200: continues with epoch 4",
        ),
        ("Planned", PLAN | {"predicted_bytes": 5 * GIB}, "the step fits as it is: 5 GiB of 8 GiB"),
        (
            "Planned",
            PLAN | {"planned_bytes": 7 * GIB, "slowdown": 1.12, "pieces": 4},
            "the step needs 9 GiB as it is written; planned for 8 GiB: 7 GiB, in 4 micro-batches, +12% time",
        ),
        ("Note", {"text": "a sentence"}, "a sentence"),
        ("Decided", {"change": "less", "reason": "it ran out"}, "less: it ran out"),
        (
            "AttemptEnded",
            END | {"cause": "host memory", "words": "MemoryError"},
            "attempt 2 ended after 3 min 05 s: out of the host's memory: MemoryError",
        ),
        (
            "AttemptEnded",
            END | {"cause": "failure", "words": "ValueError: bad"},
            "attempt 2 ended after 3 min 05 s: ValueError: bad",
        ),
        (
            "RunEnded",
            {"status": "stopped", "exit_code": 143},
            "stopped after 0 steps; to continue: lowtide train --resume runs/a",
        ),
        (
            "RunEnded",
            {"status": "failed", "exit_code": 1},
            "gave up after 0 attempts; to try again: lowtide train --resume runs/a",
        ),
    ],
)
def test_an_event_is_one_line(kind, fields, line):
    assert say(kind, **fields) == (line,)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("AttemptEnded", END | {"cause": "finished", "words": "the script ended well"}),
        ("TrainingEnded", {"training": 0, "steps_done": 3}),
        ("Failed", {"error": "ValueError", "message": "", "is_memory": False, "steps_done": 1}),
        (
            "CheckpointWritten",
            {"name": "x", "reason": "", "epoch": 0, "step": 1, "steps_done": 1, "bytes": 1, "seconds": 1.0},
        ),
    ],
)
def test_what_other_lines_include_has_no_line(kind, fields):
    assert say(kind, **fields) == ()


def test_an_explanation_is_a_line_and_advice_is_not():
    lines = say("AttemptEnded", **END, cause="device memory", words="OOM", explanation=("too large", "use less"))
    assert lines == ("attempt 2 ended after 3 min 05 s: out of the device's memory: OOM", "too large")


def test_an_epoch_has_what_is_known_of_it():
    narrator = Narrator(Path("a"))
    epoch = {"attempt": 1, "training": 0, "epoch": 2, "steps_done": 300, "time": 1000.0}
    bare = history.EpochEnded(**epoch, epochs=None, logs={}, step_seconds=None)
    assert narrator.lines(bare) == ("epoch 3",)
    narrator.lines(history.AttemptStarted(attempt=1, command=("train.py",), budget_bytes=8 * GIB))
    narrator.lines(
        history.CheckpointWritten(
            attempt=1, name="x", reason="", epoch=2, step=1, steps_done=201, bytes=1, seconds=1.0, time=880.0
        )
    )
    whole = history.EpochEnded(
        **epoch,
        epochs=10,
        logs={"loss": 0.3123456, "accuracy": 0.91, "rate": 1e-05},
        step_seconds=0.0384,
        device_bytes=5 * GIB,
    )
    assert narrator.lines(whole) == (
        "epoch 3/10  loss 0.3123  accuracy 0.91  rate 1e-05  38.4 ms/step  5 GiB of 8 GiB  checkpoint 2 min 01 s ago",
    )
    ended = history.RunEnded(attempt=1, status="finished", exit_code=0)
    assert narrator.lines(ended) == ("finished after 300 steps in 1 attempt",)


def test_a_part_of_an_epoch_is_one_line():
    part = {**EPOCH, "step": 1200, "step_seconds": 0.0384, "device_bytes": GIB}
    line = "loss 0.5  38.4 ms/step  1 GiB"
    assert say("StepsDone", **part, steps=4000) == (f"epoch 3/10  step 1,200/4,000  {line}",)
    assert say("StepsDone", **part, steps=None) == (f"epoch 3/10  step 1,200  {line}",)


def test_a_step_is_told_from_the_first_one():
    narrator = Narrator(Path("a"))

    def say_plan(**fields):
        return (
            narrator.lines(history.Planned(attempt=1, **PLAN | fields))[0].partition(" fits")[0].partition(" needs")[0]
        )

    narrator.lines(history.AttemptStarted(attempt=1, command=("train.py",), budget_bytes=8 * GIB))
    assert say_plan(batch_size=64, planned_bytes=7 * GIB) == "the step"
    narrator.lines(history.TrainingEnded(attempt=1, training=0, steps_done=3))
    assert say_plan(batch_size=16) == "the step for a batch of 16"
    assert say_plan(batch_size=None) == "another step"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.00082, "0.82 ms"), (0.2031, "203 ms"), (0.9996, "1 s"), (1.04, "1.04 s"), (1234.6, "1,235 s")],
)
def test_the_time_of_a_step_has_a_readable_unit(seconds, words):
    assert f"  {words}/step" in say("EpochEnded", **EPOCH, step_seconds=seconds)[0]
