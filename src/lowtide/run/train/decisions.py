"""What to change after an attempt has ended, and when to give up.

A change is never undone, and each kind has few steps, so a run that makes no progress ends after a few attempts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lowtide.errors import LowtideError
from lowtide.planning.allowance import MICROBATCH
from lowtide.planning.plan import NoPlanError
from lowtide.run.train.history import (
    AttemptEnded,
    CheckpointWritten,
    EpochEnded,
    Event,
    Failed,
    RunEnded,
    TrainingEnded,
    TrainingStarted,
)
from lowtide.run.train.settings import AttemptSettings
from lowtide.units import format_bytes

FINISHED, INTERRUPTED = "finished", "interrupted"
DEVICE_MEMORY, HOST_MEMORY = "device memory", "host memory"
RESTART, KILLED, FAILURE = "restart", "killed", "failure"
CAUSES = (FINISHED, INTERRUPTED, DEVICE_MEMORY, HOST_MEMORY, RESTART, KILLED, FAILURE)
"""Why an attempt ended."""

_SMALLER = 0.93
"""The next plan's share of the budget of the one before."""
_SMALLER_PLANS = 3
_SMALLER_SPLIT_PLANS = 2
_LEAST_DATA_SHARE = 0.125
_RESTARTS = 3
"""How often a run is started again in succession without a new checkpoint."""
_MIB = 1 << 20
_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True)
class Decision:
    """The settings of the next attempt; None if the run ends."""

    settings: AttemptSettings | None
    change: str
    reason: str


@dataclass(frozen=True)
class PastAttempt:
    """An attempt that has ended."""

    cause: str
    failure: tuple[object, ...]
    """The exception, or the signal or exit code, by which a failure is recognized again."""
    steps_done: int
    """The number of steps of the run that it is known to have reached."""
    has_new_checkpoint: bool
    is_without_plan: bool = False
    """Whether it ended because no plan reaches the budget."""
    is_refused: bool = False
    """Whether lowtide itself refused to go on, as with another model than that of the checkpoint."""
    unplanned: str | None = None
    """Where it ended, if lowtide plans no steps there."""


def whole_mib(count: int) -> int:
    """Return an amount of memory as the allocator takes its limit, rounded down to whole MiB."""
    return count // _MIB * _MIB


def describe_changes(first: AttemptSettings, settings: AttemptSettings) -> tuple[str, ...]:
    """Return what differs from the settings of the first attempt, in words."""
    changes = []
    if settings.budget_bytes is not None and settings.budget_bytes != first.budget_bytes:
        changes.append(f"steps planned for {format_bytes(settings.budget_bytes)}")
    if settings.splits and not first.splits:
        changes.append("batches split where that changes statistics")
    if settings.data_share != first.data_share:
        changes.append(f"{settings.data_share:.3g} of the memory for the data pipeline")
    return tuple(changes)


def is_lowered(budget_bytes: int, full_bytes: int) -> bool:
    """Whether a budget is one that `decide` chooses for a limit."""
    least = float(full_bytes * _SMALLER ** (_SMALLER_PLANS + 0.5))
    return least < budget_bytes <= full_bytes


def decide(settings: AttemptSettings, history: Iterable[Event], limit_bytes: int) -> Decision:
    """Return what to do after the last attempt in the history, which had these settings and did not finish.

    `limit_bytes` is the limit of the device's memory.
    """
    events = list(history)
    attempts = past_attempts(events)
    last = attempts[-1]
    if last.cause == DEVICE_MEMORY:
        return _for_device_memory(settings, last, whole_mib(limit_bytes))
    if last.cause == HOST_MEMORY:
        return _for_host_memory(settings, last, "the host's memory ran out")
    if last.cause == RESTART:
        if not last.has_new_checkpoint:
            return _for_host_memory(settings, last, "memory would have run out before the first checkpoint")
        return _same(settings, "memory would have run out before the next checkpoint")
    if last.cause == FAILURE and last.is_refused:
        return Decision(None, "the run ends", "lowtide cannot go on, and to start again would not change that")
    if last.cause == FAILURE and not any(isinstance(event, TrainingStarted) for event in events):
        return Decision(None, "the run ends", "the script failed before its training began, and it is not memory")
    if last.cause == FAILURE and _was_seen(last, attempts[:-1]):
        return Decision(None, "the run ends", "the same failure occurred twice at the same step, and it is not memory")
    if _restarts_in_vain(attempts) >= _RESTARTS:
        return Decision(None, "the run ends", f"{_RESTARTS} restarts in succession led to no new checkpoint")
    if last.cause == KILLED:
        return _same(settings, "the process was killed by something other than lowtide")
    return _same(settings, "a failure that is not about memory is tried once more")


def past_attempts(history: Iterable[Event]) -> list[PastAttempt]:
    """Return the attempts that have ended since the run was last started by a user."""
    attempts: list[PastAttempt] = []
    seen: list[Event] = []
    for event in history:
        seen.append(event)
        if isinstance(event, RunEnded):
            attempts.clear()
        elif isinstance(event, AttemptEnded):
            attempts.append(_past_attempt(event, seen))
    return attempts


def _past_attempt(ended: AttemptEnded, history: Sequence[Event]) -> PastAttempt:
    events = [event for event in history if event.attempt == ended.attempt]
    newest = _newest_checkpoint(event for event in history if event.attempt != ended.attempt)
    has_new_checkpoint = _newest_checkpoint(events) > newest
    failed = next((each for each in reversed(events) if isinstance(each, Failed)), None)
    places = (TrainingStarted, CheckpointWritten, EpochEnded, TrainingEnded)
    reached = max((each.steps_done for each in events if isinstance(each, places)), default=0)
    unplanned = _find_unplanned(events)
    if failed is None:
        failure: tuple[object, ...] = (ended.exit_code, ended.signal)
        return PastAttempt(ended.cause, failure, reached, has_new_checkpoint, unplanned=unplanned)
    # An object's address differs from process to process.
    failure = (failed.error, _ADDRESS.sub("0x", failed.message))
    is_refused = failed.error == LowtideError.__name__
    return PastAttempt(
        ended.cause, failure, failed.steps_done, has_new_checkpoint, is_no_plan(failed), is_refused, unplanned
    )


def _find_unplanned(events: Sequence[Event]) -> str | None:
    """Return where an attempt ended, if lowtide plans no steps there; None if it does."""
    last = next((each for each in reversed(events) if isinstance(each, (TrainingStarted, TrainingEnded))), None)
    if not isinstance(last, TrainingStarted):
        return "outside of a training, where there is no step to plan"
    if last.can_plan:
        return None
    return (
        "in a step that lowtide does not plan by itself: one that is written by hand, eager, or planned by the script"
    )


def _newest_checkpoint(events: Iterable[Event]) -> int:
    """Return the number of steps after which the newest checkpoint was written."""
    return max((event.steps_done for event in events if isinstance(event, CheckpointWritten)), default=0)


def is_no_plan(failed: Failed) -> bool:
    """Whether a process ended because no plan reaches the budget."""
    return failed.error == NoPlanError.__name__


def _was_seen(last: PastAttempt, before: Sequence[PastAttempt]) -> bool:
    same = (FAILURE, last.failure, last.steps_done)
    return any((each.cause, each.failure, each.steps_done) == same for each in before)


def _restarts_in_vain(attempts: Sequence[PastAttempt]) -> int:
    """Return how often in succession the run was started again and was killed or failed without a new checkpoint."""
    count = 0
    for each in reversed(attempts):
        if each.has_new_checkpoint or each.cause not in (KILLED, FAILURE):
            return count
        count += 1
    # The first attempt was no restart.
    return count - 1


def _same(settings: AttemptSettings, reason: str) -> Decision:
    return Decision(settings, "started again with the same settings", reason)


def _for_device_memory(settings: AttemptSettings, last: PastAttempt, full_bytes: int) -> Decision:
    budget = settings.budget_bytes
    if last.unplanned is not None:
        why = "no plan reaches" if last.is_without_plan else "the device's memory ran out"
        where = "the budget that the script has chosen" if last.is_without_plan else last.unplanned
        return _when_nothing_is_left(settings, last, f"{why} {where}")
    if budget is None or budget > full_bytes:
        return _plan_for(settings, full_bytes, "the device's memory ran out, and steps were not planned for its limit")
    times = round(math.log(budget / full_bytes) / math.log(_SMALLER))
    if not last.is_without_plan and times < (_SMALLER_SPLIT_PLANS if settings.splits else _SMALLER_PLANS):
        less = int(full_bytes * _SMALLER ** (times + 1))
        return _plan_for(settings, less, f"the device's memory ran out with steps planned for {format_bytes(budget)}")
    why = f"no plan reaches {format_bytes(budget)}" if last.is_without_plan else "smaller plans ran out too"
    if not settings.splits and MICROBATCH not in settings.allow:
        change = (
            "batches are split also where that changes statistics, as under BatchNormalization, and steps are planned "
            f"for {format_bytes(full_bytes)}; the effective batch stays the same"
        )
        return Decision(settings.changed(splits=True, budget_bytes=full_bytes), change, why)
    return _when_nothing_is_left(settings, last, why)


def _plan_for(settings: AttemptSettings, budget_bytes: int, reason: str) -> Decision:
    return Decision(
        settings.changed(budget_bytes=budget_bytes), f"steps are planned for {format_bytes(budget_bytes)}", reason
    )


def _for_host_memory(settings: AttemptSettings, last: PastAttempt, reason: str) -> Decision:
    share = settings.data_share / 2
    if share < _LEAST_DATA_SHARE:
        return _when_nothing_is_left(settings, last, reason)
    change = f"the data pipeline uses {share:.3g} of the memory that it used at first"
    return Decision(settings.changed(data_share=share), change, reason)


def _when_nothing_is_left(settings: AttemptSettings, last: PastAttempt, reason: str) -> Decision:
    if last.has_new_checkpoint:
        return _same(settings, f"{reason}, and nothing is left to change, but the last attempt wrote a new checkpoint")
    return Decision(None, "the run ends", f"{reason}, and nothing is left to change")
