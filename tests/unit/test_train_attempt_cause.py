"""Why an attempt ended, from what is known of its end."""

from pathlib import Path

import pytest

from lowtide.oom.evidence import Evidence, Request
from lowtide.oom.shortage import explain_evidence
from lowtide.run.launch import Ending
from lowtide.run.train.attempt_cause import find_attempt_cause, stop_signal
from lowtide.run.train.history import Event, Failed, LeftTraining, TrainingEnded, TrainingStarted
from lowtide.run.train.supervisor import describe_end

OF_THE_HOST = explain_evidence(Evidence(Request(), exhausted="process"), "train.py")
OF_THE_DEVICE = explain_evidence(Evidence(Request(bytes=1 << 30, node="conv/Conv2D")), "train.py")
START = TrainingStarted(attempt=1, training=0, epoch=0, step=0, epochs=1, steps=2, steps_done=0)
LEFT = LeftTraining(attempt=1, training=0)
END = TrainingEnded(attempt=1, training=0, steps_done=2)


def ending(code: int, stopped_by: int | None = None) -> Ending:
    return Ending(code, -code if code < 0 else None, 1.0, Path("log"), None, stopped_by)


def failed(error: str, message: str = "", is_memory: bool = True) -> Event:
    return Failed(attempt=1, error=error, message=message, is_memory=is_memory, steps_done=0)


def cause(code: int, *events: Event, shortages=(), stopped_by=None, dump=False, kills=False) -> str:
    return find_attempt_cause(ending(code, stopped_by), events, shortages, has_dump=dump, was_out_of_memory=kills)


@pytest.mark.parametrize(
    ("code", "stopped_by", "events", "expected", "number"),
    [
        (0, None, (START,), "finished", None),
        (0, None, (START, LEFT), "interrupted", None),
        # The script has caught its own SystemExit, and trained again.
        (0, None, (START, LEFT, START, END), "finished", None),
        (143, 15, (START,), "interrupted", 15),
        (-15, 15, (), "interrupted", 15),
        (-15, None, (START,), "interrupted", 15),
        (143, None, (START,), "interrupted", 15),
        (-1, None, (), "interrupted", 1),
        # Python's own handler raises KeyboardInterrupt.
        (1, 2, (START,), "interrupted", 2),
        # The script handles the signal itself.
        (0, 15, (START,), "interrupted", 15),
        (0, 15, (START, END), "finished", 15),
        (0, 15, (), "finished", 15),
    ],
)
def test_who_is_stopped_from_outside(code, stopped_by, events, expected, number):
    assert cause(code, *events, stopped_by=stopped_by) == expected
    assert stop_signal(ending(code, stopped_by)) == number


@pytest.mark.parametrize(
    ("code", "events", "known", "expected"),
    [
        (1, (failed("ResourceExhaustedError"),), {"shortages": [OF_THE_DEVICE]}, "device memory"),
        (1, (failed("ResourceExhaustedError"),), {}, "device memory"),
        (1, (failed("NoPlanError"),), {}, "device memory"),
        (1, (failed("InternalError"),), {"shortages": [OF_THE_HOST]}, "host memory"),
        (1, (failed("InternalError"),), {"shortages": [OF_THE_HOST, OF_THE_DEVICE]}, "device memory"),
        (1, (failed("MemoryError"),), {"shortages": [OF_THE_DEVICE]}, "host memory"),
        (1, (failed("UnknownError", "std::bad_alloc"),), {}, "host memory"),
        (1, (failed("ValueError", is_memory=False),), {"shortages": [OF_THE_DEVICE]}, "failure"),
        (1, (), {"shortages": [OF_THE_DEVICE]}, "device memory"),
        (1, (failed("BrokenProcessPool", is_memory=False),), {"kills": True}, "host memory"),
        (1, (), {"dump": True}, "failure"),
        (-11, (), {"dump": True}, "device memory"),
        (-6, (), {"dump": True}, "device memory"),
        (-6, (), {"shortages": [OF_THE_HOST]}, "host memory"),
        (-11, (), {}, "failure"),
        (-9, (), {}, "killed"),
        (-9, (), {"kills": True}, "host memory"),
        (1, (), {"kills": True}, "host memory"),
        (75, (START,), {}, "restart"),
    ],
)
def test_what_ran_out(code, events, known, expected):
    assert cause(code, *events, **known) == expected


def test_a_kill_of_another_program_is_not_told_of_this_one():
    kill = Ending(-9, 9, 1.0, Path("log"), kills=1)
    assert describe_end(kill, [START], "killed") == "the process was killed by SIGKILL"
    assert "out-of-memory killer" in describe_end(kill, [START], "host memory")
