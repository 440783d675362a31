"""Why the process of an attempt ended."""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence

from lowtide.oom.shortage import Shortage
from lowtide.run.launch import Ending
from lowtide.run.train.decisions import (
    DEVICE_MEMORY,
    FAILURE,
    FINISHED,
    HOST_MEMORY,
    INTERRUPTED,
    KILLED,
    RESTART,
    is_no_plan,
)
from lowtide.run.train.history import Event, Failed, LeftTraining, TrainingEnded, TrainingStarted

RESTART_CODE = 75
"""The exit code by which a process asks to be started again: that of a temporary failure in sysexits.h."""
_STOPS = (signals.SIGTERM, signals.SIGINT, signals.SIGHUP)
_CRASHES = (signals.SIGSEGV, signals.SIGABRT, signals.SIGBUS)
# The causes of a shortage outside of TensorFlow's allocators.
_OF_THE_HOST = ("host", "container")


def find_attempt_cause(
    ending: Ending,
    events: Sequence[Event],
    shortages: Sequence[Shortage],
    *,
    has_dump: bool,
    was_out_of_memory: bool,
) -> str:
    """Return one of `decisions.CAUSES`.

    `events` are those of the attempt, `shortages` those in its log. `has_dump` says whether the allocator has written
    its blocks shortly before the end, `was_out_of_memory` whether the kernel killed processes for their memory.
    """
    if ending.exit_code == 0 and has_left_training(events):
        return INTERRUPTED
    if ending.exit_code == 0 and (ending.stopped_by is None or not _is_in_training(events)):
        return FINISHED
    if stop_signal(ending) is not None:
        return INTERRUPTED
    if ending.exit_code == RESTART_CODE:
        return RESTART
    if ending.signal == signals.SIGKILL:
        return HOST_MEMORY if was_out_of_memory else KILLED
    memory = HOST_MEMORY if shortages and shortages[-1].cause.name in _OF_THE_HOST else DEVICE_MEMORY
    failed = next((each for each in reversed(events) if isinstance(each, Failed)), None)
    if failed is not None and failed.is_memory:
        return _memory_of_exception(failed, memory)
    if failed is None and (shortages or (has_dump and ending.signal in _CRASHES)):
        return memory
    # A process that the script has started may have been killed, and the script failed without it.
    return HOST_MEMORY if was_out_of_memory else FAILURE


def stop_signal(ending: Ending) -> int | None:
    """Return the signal by which an attempt was stopped from outside; None if it was not."""
    if ending.stopped_by is not None:
        return ending.stopped_by
    return next((number for number in _STOPS if ending.as_exit_code == 128 + number), None)


def has_left_training(events: Sequence[Event]) -> bool:
    """Whether the last thing that an attempt did in a training was to end itself."""
    of_trainings = [each for each in events if isinstance(each, (TrainingStarted, TrainingEnded, LeftTraining))]
    return bool(of_trainings) and isinstance(of_trainings[-1], LeftTraining)


def _is_in_training(events: Sequence[Event]) -> bool:
    started = [each.training for each in events if isinstance(each, TrainingStarted)]
    ended = [each.training for each in events if isinstance(each, TrainingEnded)]
    return bool(set(started) - set(ended))


def _memory_of_exception(failed: Failed, memory: str) -> str:
    # NumPy's is _ArrayMemoryError.
    if failed.error.endswith("MemoryError") or "bad_alloc" in failed.message:
        return HOST_MEMORY
    return DEVICE_MEMORY if is_no_plan(failed) or failed.error == "ResourceExhaustedError" else memory
