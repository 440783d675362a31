"""What the page draws of a training run, as plain data."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from lowtide.run.train.decisions import FINISHED
from lowtide.run.train.history import CheckpointWritten
from lowtide.units import format_bytes, format_count
from lowtide.view.axis import BUDGET_COLOUR, COLOURS
from lowtide.view.reports.answer_card import AnswerCard
from lowtide.view.reports.training_run import (
    CAUSE_COLOURS,
    CAUSES,
    GIVEN_UP,
    RUNNING,
    STATES,
    ShownAttempt,
    TrainingRunReport,
    describe_checkpoint,
    numbers_of,
)

# More than a page shows side by side; of longer lists an even selection is sent.
_TICKS, _EPOCHS, _NOTES = 200, 2000, 200
_METRIC_COLOURS = (COLOURS["activations"], COLOURS["gradients"], COLOURS["optimizer"], COLOURS["input"])

_Item = TypeVar("_Item")


def training_run_data(report: TrainingRunReport) -> dict[str, Any]:
    """Return the answers, the attempts on their time axis, the epochs with memory and metrics, and the notes."""
    return {
        "title": report.title,
        "state": report.state,
        "is_running": report.state == RUNNING,
        "now": report.now,
        "resume": report.resume_command,
        "answers": [asdict(answer) for answer in _answers(report)],
        "causes": {
            name: {"words": words, "colour": CAUSE_COLOURS[name]}
            for name, words in CAUSES.items()
            if any(attempt.cause == name for attempt in report.attempts)
        },
        "attempts": [_attempt_data(attempt) for attempt in report.attempts],
        "epochs": _epochs_data(report),
        "notes": [{"attempt": note.attempt, "time": note.time, "text": note.text} for note in report.notes[-_NOTES:]],
        "advice": report.advice,
        "options": report.option_lines,
    }


def _answers(report: TrainingRunReport) -> list[AnswerCard]:
    fits = {FINISHED: True, GIVEN_UP: False}.get(report.state)
    answers = [
        AnswerCard("Run", STATES[report.state], report.attempts_line, fits),
        AnswerCard("Trained", format_count(report.steps_done, "step"), report.progress_line),
    ]
    highest, budget = report.highest_device_bytes, report.record.budget_bytes
    if highest is not None:
        of = "highest use on the device" if budget is None else f"of {format_bytes(budget)}, highest use on the device"
        answers.append(AnswerCard("Memory", format_bytes(highest), of))
    checkpoint = report.checkpoint
    if checkpoint is not None:
        step = f"step {checkpoint.steps_done:,}"
        answers.append(AnswerCard("Last checkpoint", step, describe_checkpoint(checkpoint)))
    return answers


def _attempt_data(attempt: ShownAttempt) -> dict[str, Any]:
    restored, decision = attempt.restored, attempt.decision
    return {
        "number": attempt.number,
        "began": attempt.began,
        "ended": attempt.ended,
        "seconds": attempt.seconds,
        "cause": attempt.cause,
        "detail": attempt.detail,
        "explanation": attempt.explanation,
        "changes": attempt.changes,
        "restored_steps": None if restored is None else restored.steps_done,
        "origin": attempt.origin,
        "checkpoint_count": len(attempt.checkpoints),
        "checkpoints": [_checkpoint_data(each) for each in _selection(attempt.checkpoints, _TICKS)],
        "decision": None if decision is None else {"change": decision.change, "reason": decision.reason},
    }


def _checkpoint_data(checkpoint: CheckpointWritten) -> dict[str, Any]:
    return {"time": checkpoint.time, "steps": checkpoint.steps_done, "reason": checkpoint.reason}


def _epochs_data(report: TrainingRunReport) -> dict[str, Any]:
    """Return the epochs as columns."""
    epochs = _selection(report.epochs, _EPOCHS)
    budgets = {attempt.number: attempt.budget_bytes for attempt in report.attempts}
    return {
        "total": len(report.epochs),
        "training": [event.training for event in epochs],
        "epoch": [event.epoch for event in epochs],
        "attempt": [event.attempt for event in epochs],
        "steps": [event.steps_done for event in epochs],
        "step_seconds": [_finite(event.step_seconds) for event in epochs],
        "device": _series("in use", COLOURS["activations"], [event.device_bytes for event in epochs]),
        "budget": _series("budget", BUDGET_COLOUR, [budgets.get(event.attempt) for event in epochs]),
        "process": _series("resident", COLOURS["optimizer"], [event.resident_bytes for event in epochs]),
        "metrics": [
            _series(name, colour, [_finite(numbers_of(event).get(name)) for event in epochs])
            for name, colour in zip(report.metrics, _METRIC_COLOURS, strict=False)
        ],
    }


def _series(name: str, colour: str, values: Sequence[float | None]) -> dict[str, Any]:
    return {"name": name, "colour": colour, "values": values}


def _finite(value: float | None) -> float | None:
    """Return a number that JSON can hold; None for a loss that is infinite or not a number."""
    return value if value is not None and math.isfinite(value) else None


def _selection(items: Sequence[_Item], most: int) -> list[_Item]:
    """Return at most `most` items, evenly spaced, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]
