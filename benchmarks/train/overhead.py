"""What checkpoints, supervision and a restart cost: processor time, and time that the training waits."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.common.cache import Measured
from benchmarks.common.processes import AMPLE_BYTES, allocator_environment
from benchmarks.common.report import Bar, Section, percent
from benchmarks.train.runs import SCRIPTS, TrainRuns, folder_for_runs, lowtide, run
from lowtide.run.train.history import CheckpointWritten, History

SCRIPT = SCRIPTS / "timed.py"
INTERVAL_SECONDS = 300.0
MOST_CHECKPOINT_SHARE = 0.01
# Neighbouring measurements of the same script differ by about as much.
MOST_SUPERVISION_SHARE = 0.03
ROUNDS = 3
# A checkpoint every CHECKPOINT_STEPS is complete before the next one begins.
LARGE_STEPS, CHECKPOINT_STEPS = 220, 50
_NEVER = ("--checkpoint-minutes", "10000")


def measure(runs: TrainRuns) -> Section:
    cells, bars = _cost_of_checkpoints(runs)
    plain = _rounds(runs, "plain", _plain, by_lowtide=False)
    allocator = _rounds(runs, "plain, the same allocator", lambda: _plain(AMPLE_BYTES), by_lowtide=False)
    supervised = _rounds(runs, "supervised", _supervised, by_lowtide=True)
    restarted = _rounds(runs, "restarted", _restarted, by_lowtide=True)
    if plain and supervised:
        one, other = (_median(rows, "step_seconds") for rows in (plain, supervised))
        share = other / one - 1
        whole = _median(supervised, "all_seconds") - _median(supervised, "process_seconds")
        cells.append(["a step under python", _milliseconds(one), ""])
        if allocator:
            same = _median(allocator, "step_seconds")
            cells.append(
                [
                    "the same with the allocator of lowtide train",
                    _milliseconds(same),
                    percent(same / one - 1, signed=True, digits=1),
                ]
            )
        cells.append(["a step under lowtide train", _milliseconds(other), percent(share, signed=True, digits=1)])
        cells.append(["the supervisor, whole run", _seconds(whole), ""])
        bars.append(
            Bar("supervision is not measurable", percent(share, signed=True, digits=1), share <= MOST_SUPERVISION_SHARE)
        )
    if plain and restarted:
        one, other = (_median(rows, "first_step_seconds") for rows in (plain, restarted))
        cells.append(["start to first step under python", _seconds(one), ""])
        cells.append(["restart to first new step", _seconds(other), f"{other - one:+.2f} s"])
    return Section("Cost", ("what", "time", "relative"), cells, bars)


def _cost_of_checkpoints(runs: TrainRuns) -> tuple[list[list[str]], list[Bar]]:
    """Return rows and bars for checkpoints in the background and in the foreground."""
    cells, shares = [], []
    never = runs.once("no checkpoints", lambda: _checkpoints(*_NEVER), by_lowtide=True)
    for where, given in (("background", []), ("foreground", ["--foreground"])):
        measured = runs.once(
            f"checkpoints of 300 MB in the {where}",
            lambda given=given: _checkpoints("--checkpoint-steps", str(CHECKPOINT_STEPS), arguments=given),
            by_lowtide=True,
        )
        if any(not each or "failed" in each for each in (measured, never)):
            continue
        waited, whole = (statistics.median(measured[name]) for name in ("blocked_seconds", "checkpoint_seconds"))
        processor = (measured["process_seconds"] - never["process_seconds"]) / len(measured["checkpoint_seconds"])
        shares.append(waited / INTERVAL_SECONDS)
        words = f"checkpoint of 300 MB in the {where}"
        cells.append(
            [f"{words}: the training waits", _seconds(waited), f"{percent(shares[-1], digits=2)} of 5 minutes"]
        )
        cells.append([f"{words}: until it is on disk", _seconds(whole), ""])
        cells.append([f"{words}: processor time of the process", _seconds(processor), ""])
    if not shares:
        return cells, []
    most = max(shares)
    words = "checkpoints every 5 minutes take at most 1%, also in the foreground"
    return cells, [Bar(words, percent(most, digits=2), most <= MOST_CHECKPOINT_SHARE)]


def _rounds(runs: TrainRuns, name: str, work: Callable[[], Measured], *, by_lowtide: bool) -> list[Measured]:
    found = [runs.once(f"{name}, round {number}", work, by_lowtide=by_lowtide) for number in range(ROUNDS)]
    return [each for each in found if each and "failed" not in each]


def _checkpoints(*options: str, arguments: Sequence[str] = ()) -> Measured:
    with folder_for_runs() as folder:
        ended = run(_command(folder, ["large", "--steps", str(LARGE_STEPS), *arguments], *options), folder)
        events = History(folder / "run").read()
        # All but that of the end, for which the script waits.
        written = [event for event in events if isinstance(event, CheckpointWritten)][:-1]
        if ended.code:
            return {"failed": ended.last_line}
        return {
            "checkpoint_seconds": [each.seconds for each in written],
            "blocked_seconds": [each.blocked_seconds for each in written],
            "process_seconds": _result(folder)["process_seconds"],
        }


def _plain(limit_bytes: int | None = None) -> Measured:
    variables = {} if limit_bytes is None else allocator_environment(limit_bytes)
    with folder_for_runs() as folder:
        ended = run([str(SCRIPT), str(folder), "small", "--steps", "450"], folder, **variables)
        return _result(folder) | {"all_seconds": ended.processor_seconds}


def _supervised() -> Measured:
    with folder_for_runs() as folder:
        ended = run(_command(folder, ["small", "--steps", "450"], *_NEVER), folder)
        return _result(folder) | {"all_seconds": ended.processor_seconds}


def _restarted() -> Measured:
    with folder_for_runs() as folder:
        arguments = ["small", "--steps", "450", "--kill", "100"]
        run(_command(folder, arguments, "--checkpoint-steps", "60"), folder)
        return _result(folder)


def _command(folder: Path, arguments: list[str], *options: str) -> list[str]:
    return lowtide("--out", str(folder / "run"), *options, str(SCRIPT), str(folder), *arguments)


def _result(folder: Path) -> Measured:
    path = folder / "result.json"
    found: Measured = json.loads(path.read_text()) if path.exists() else {"failed": "no result"}
    return found


def _median(rows: list[Measured], name: str) -> float:
    return statistics.median(row[name] for row in rows)


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _milliseconds(value: float) -> str:
    return f"{1000 * value:.2f} ms"
