"""What the supervisor changes after an attempt, from histories that are written by hand."""

import random
from dataclasses import replace

import pytest

from lowtide.run.train.decisions import (
    CAUSES,
    DEVICE_MEMORY,
    FAILURE,
    HOST_MEMORY,
    KILLED,
    RESTART,
    Decision,
    decide,
    describe_changes,
    past_attempts,
)
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

GIB = 1 << 30
SETTINGS = AttemptSettings("a", 1, seed=7)
PLANNED = SETTINGS.changed(budget_bytes=8 * GIB)


STARTED = TrainingStarted(attempt=1, training=0, epoch=0, step=0, epochs=1, steps=2, steps_done=0)


def checkpoint(attempt: int, steps: int) -> Event:
    return CheckpointWritten(
        attempt=attempt, name=f"{steps:012}", reason="", epoch=0, step=steps, steps_done=steps, bytes=1, seconds=0.1
    )


def failed(attempt: int, steps: int = 0, error: str = "ValueError", message: str = "bad") -> Event:
    return Failed(attempt=attempt, error=error, message=message, is_memory=False, steps_done=steps)


def ended(attempt: int, cause: str, exit_code: int = 1, signal: int | None = None) -> Event:
    assert cause in CAUSES
    return AttemptEnded(attempt=attempt, cause=cause, words="", exit_code=exit_code, signal=signal, seconds=1.0)


def run_to_the_end(settings: AttemptSettings, cause: str, *, error: str | None = None) -> list[Decision]:
    """Return the decisions of a run whose attempts all end in the same way, without progress."""
    history: list[Event] = []
    decisions: list[Decision] = []
    for attempt in range(1, 50):
        history.append(replace(STARTED, attempt=attempt))
        history += [] if error is None else [failed(attempt, error=error)]
        history.append(ended(attempt, cause))
        decisions.append(decide(settings, history, 8 * GIB))
        if decisions[-1].settings is None:
            return decisions
        settings = decisions[-1].settings
    pytest.fail("there is no end")


def ladder(decisions: list[Decision]) -> list[tuple[float | None, bool, float]]:
    return [
        (round((each.budget_bytes or 0) / (8 * GIB), 2), each.splits, each.data_share)
        for each in (decision.settings for decision in decisions)
        if each is not None
    ]


def test_what_is_changed_for_the_devices_memory():
    tail = [(0.93, False, 1.0), (0.86, False, 1.0), (0.8, False, 1.0)]
    tail += [(1.0, True, 1.0), (0.93, True, 1.0), (0.86, True, 1.0)]
    assert ladder(run_to_the_end(SETTINGS, DEVICE_MEMORY)) == [(1.0, False, 1.0), *tail]
    assert ladder(run_to_the_end(PLANNED, DEVICE_MEMORY)) == tail
    # Where batches may be split anyway, allowing it changes nothing.
    allowed = PLANNED.changed(allow=("microbatch",))
    assert ladder(run_to_the_end(allowed, DEVICE_MEMORY)) == tail[:3]


@pytest.mark.parametrize("seed", range(100))
def test_whatever_happens_a_run_without_progress_ends(seed):
    choose = random.Random(seed).choice
    settings, history = choose((SETTINGS, PLANNED)), []
    for attempt in range(1, 60):
        history += choose(([], [replace(STARTED, attempt=attempt)]))
        error, cause = choose(("NoPlanError", "ValueError", str(attempt))), choose(CAUSES[2:])
        history += [failed(attempt, steps=choose((0, attempt)), error=error), ended(attempt, cause)]
        decision = decide(settings, history, 8 * GIB)
        if decision.settings is None:
            return
        settings = decision.settings
    pytest.fail("there is no end")


def test_a_smaller_budget_is_not_tried_where_no_plan_reaches_it():
    decisions = run_to_the_end(SETTINGS, DEVICE_MEMORY, error="NoPlanError")
    assert ladder(decisions) == [(1.0, False, 1.0), (1.0, True, 1.0)]
    assert decisions[-1].reason == "no plan reaches 8 GiB, and nothing is left to change"


def test_a_budget_above_the_limit_is_lowered_to_it():
    decision = decide(PLANNED, [STARTED, ended(1, DEVICE_MEMORY)], 6 * GIB)
    assert decision.settings is not None
    assert decision.settings.budget_bytes == 6 * GIB


@pytest.mark.parametrize("limit", [8 * GIB + 12345, 100 << 20, 5 << 20, 1 << 20])
def test_no_budget_is_above_the_limit_that_the_allocator_takes(limit):
    settings, history = SETTINGS, []
    budgets = []
    for attempt in range(1, 5):
        history += [replace(STARTED, attempt=attempt), ended(attempt, DEVICE_MEMORY)]
        after = decide(settings, history, limit).settings
        assert after is not None
        budgets.append(after.budget_bytes)
        settings = after
    assert budgets[0] == limit >> 20 << 20
    assert budgets == sorted(set(budgets), reverse=True)


def test_what_is_changed_for_the_hosts_memory():
    decisions = run_to_the_end(SETTINGS, HOST_MEMORY)
    assert ladder(decisions) == [(0.0, False, 0.5), (0.0, False, 0.25), (0.0, False, 0.125)]
    assert decisions[-1].reason == "the host's memory ran out, and nothing is left to change"


def test_one_kind_of_memory_does_not_undo_what_was_changed_for_the_other():
    first = decide(PLANNED, [STARTED, ended(1, DEVICE_MEMORY)], 8 * GIB).settings
    assert first is not None
    second = decide(first, [STARTED, ended(1, DEVICE_MEMORY), ended(2, HOST_MEMORY)], 8 * GIB).settings
    assert second is not None
    assert (second.budget_bytes, second.data_share) == (first.budget_bytes, 0.5)


@pytest.mark.parametrize("cause", [DEVICE_MEMORY, HOST_MEMORY])
def test_with_nothing_left_to_change_a_run_goes_on_while_it_makes_progress(cause):
    settings = SETTINGS.changed(budget_bytes=round(8 * GIB * 0.93**2), splits=True, data_share=0.125)
    history = [checkpoint(1, 10), ended(1, cause)]
    assert decide(settings, history, 8 * GIB).settings == settings
    # The checkpoint of the attempt before it is no progress.
    history += [checkpoint(2, 10), ended(2, cause)]
    assert decide(settings, history, 8 * GIB).settings is None


def test_a_process_that_asks_for_a_restart_gets_it():
    history = [checkpoint(1, 10), ended(1, RESTART, 75)]
    assert decide(PLANNED, history, 8 * GIB).settings == PLANNED
    assert ladder(run_to_the_end(PLANNED, RESTART)) == [(1.0, False, 0.5), (1.0, False, 0.25), (1.0, False, 0.125)]


@pytest.mark.parametrize(
    ("before", "now", "is_same"),
    [
        (failed(1, 5), failed(2, 5), True),
        (failed(1, 5), failed(2, 6), False),
        (failed(1, 5), failed(2, 5, error="TypeError"), False),
        (failed(1, 5), failed(2, 5, message="other"), False),
        (failed(1, 5, message="<X at 0x7f01>"), failed(2, 5, message="<X at 0x7f02>"), True),
        (checkpoint(1, 5), checkpoint(2, 5), True),
        (checkpoint(1, 5), checkpoint(2, 6), False),
    ],
)
def test_the_same_failure_at_the_same_step_ends_the_run(before, now, is_same):
    history = [STARTED, before, ended(1, FAILURE)]
    assert decide(SETTINGS, history, GIB).settings == SETTINGS
    history += [now, ended(2, FAILURE)]
    assert (decide(SETTINGS, history, GIB).settings is None) == is_same


def test_failures_without_an_exception_are_compared_by_signal_and_exit_code():
    first = [STARTED, ended(1, FAILURE, 139, 11)]
    assert decide(SETTINGS, [*first, ended(2, FAILURE, 139, 11)], GIB).settings is None
    assert decide(SETTINGS, [*first, ended(2, FAILURE, 134, 6)], GIB).settings is not None
    assert decide(SETTINGS, [*first, ended(2, FAILURE, 1)], GIB).settings is not None


def test_a_script_that_fails_before_its_training_is_not_tried_again():
    decision = decide(SETTINGS, [ended(1, FAILURE, 2)], GIB)
    assert decision.settings is None
    assert decision.reason == "the script failed before its training began, and it is not memory"


def test_what_lowtide_refuses_is_not_tried_again():
    history = [STARTED, failed(1, error="LowtideError", message="the model has changed"), ended(1, FAILURE)]
    assert decide(SETTINGS, history, 8 * GIB).settings is None


def test_a_step_that_cannot_be_planned_is_not_planned():
    decision = decide(SETTINGS, [replace(STARTED, can_plan=False), ended(1, DEVICE_MEMORY)], 8 * GIB)
    assert decision.settings is None
    assert "a step that lowtide does not plan by itself" in decision.reason


@pytest.mark.parametrize("events", [[], [STARTED, TrainingEnded(attempt=1, training=0, steps_done=2)]])
def test_nothing_is_planned_for_memory_that_runs_out_outside_of_a_training(events):
    decision = decide(SETTINGS, [*events, ended(1, DEVICE_MEMORY)], 8 * GIB)
    assert decision.settings is None
    assert "outside of a training" in decision.reason


def test_a_failure_is_recognized_after_others():
    history = [STARTED, failed(1, 5), ended(1, FAILURE), ended(2, KILLED, 137, 9), failed(3, 5), ended(3, FAILURE)]
    assert decide(SETTINGS, history, GIB).settings is None


def test_a_failure_that_is_different_each_time_ends_too():
    history: list[Event] = [STARTED]
    for attempt in range(1, 4):
        history += [failed(attempt, message=str(attempt)), ended(attempt, FAILURE)]
        assert decide(SETTINGS, history, GIB).settings == SETTINGS
    history += [failed(4, message="4"), ended(4, FAILURE)]
    decision = decide(SETTINGS, history, GIB)
    assert decision.settings is None
    assert decision.reason == "3 restarts in succession led to no new checkpoint"


def test_a_process_that_is_killed_is_started_three_times_without_a_new_checkpoint():
    history: list[Event] = [checkpoint(1, 10), ended(1, KILLED, 137, 9)]
    assert decide(SETTINGS, history, GIB).settings == SETTINGS
    for attempt in (2, 3):
        history.append(ended(attempt, KILLED, 137, 9))
        assert decide(SETTINGS, history, GIB).settings == SETTINGS
    assert decide(SETTINGS, [*history, ended(4, KILLED, 137, 9)], GIB).settings is None
    history += [checkpoint(4, 20), ended(4, KILLED, 137, 9)]
    assert decide(SETTINGS, history, GIB).settings == SETTINGS


def test_what_happened_before_the_user_started_again_does_not_count():
    history = [STARTED, failed(1, 5), ended(1, FAILURE), failed(2, 5), ended(2, FAILURE)]
    assert decide(SETTINGS, history, GIB).settings is None
    history += [RunEnded(attempt=2, status="failed", exit_code=1), failed(3, 5), ended(3, FAILURE)]
    assert decide(SETTINGS, history, GIB).settings == SETTINGS
    assert [each.steps_done for each in past_attempts(history)] == [5]


def test_how_far_an_attempt_came():
    epoch = EpochEnded(attempt=1, training=0, epoch=0, epochs=2, steps_done=30, logs={}, step_seconds=None)
    history = [checkpoint(1, 20), epoch, ended(1, KILLED, 137, 9), checkpoint(2, 20), ended(2, KILLED, 137, 9)]
    first, second = past_attempts(history)
    assert (first.steps_done, first.has_new_checkpoint) == (30, True)
    assert (second.steps_done, second.has_new_checkpoint) == (20, False)


def test_an_attempt_whose_end_nobody_saw_counts_by_its_checkpoints():
    # The supervisor was killed with the first attempt.
    history = [checkpoint(1, 20), checkpoint(2, 20), ended(2, KILLED, 137, 9)]
    assert [each.has_new_checkpoint for each in past_attempts(history)] == [False]


def test_changes_in_words():
    assert describe_changes(SETTINGS, SETTINGS.changed(attempt=3)) == ()
    changed = SETTINGS.changed(budget_bytes=4 * GIB, splits=True, data_share=0.25)
    assert describe_changes(SETTINGS, changed) == (
        "steps planned for 4 GiB",
        "batches split where that changes statistics",
        "0.25 of the memory for the data pipeline",
    )
    assert describe_changes(PLANNED, PLANNED) == ()
