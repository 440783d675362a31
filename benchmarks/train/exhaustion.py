"""Batches that are four times too large: what `lowtide train` does, and the halving search of other tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.cache import Measured
from benchmarks.common.processes import MEBIBYTE, allocator_environment
from benchmarks.common.report import Bar, Section, mebibytes
from benchmarks.train.runs import SCRIPTS, Ended, TrainRuns, folder_for_runs, lowtide, run
from lowtide.run.train.history import AttemptStarted, Decided, History, Planned

SCRIPT = SCRIPTS / "large.py"
TIMES_TOO_LARGE = 4
EPOCHS, STEPS_PER_EPOCH = 2, 4
MOST_RESTARTS = 2
# A batch of these sizes takes about 100 MiB.
BATCHES = {
    "cnn": 256, "cnn_with_normalization": 256, "mlp": 4096, "transformer": 256, "lstm": 512, "Autoencoder": 256,
}  # fmt: skip
# Those whose limit lowtide only meets when it runs out; it plans the same step then, and planning takes minutes.
FOUND_OUT = ("cnn", "mlp")
TIMEOUT_SECONDS = 600.0
# TensorFlow tries each allocation for ten seconds, so a step with a loop may take minutes until it fails.
TRIAL_SECONDS = 120.0


@dataclass(frozen=True)
class ExhaustionRow:
    """One program: the limit, its run under lowtide with the budget known or found out, and the halving search."""

    program: str
    limit_bytes: int | None
    planned: Measured
    found_out: Measured
    halved: Measured


def measure(program: str, runs: TrainRuns) -> ExhaustionRow:
    predicted = runs.once(f"limit {program}", lambda: _predict(program), by_lowtide=True)
    if "safe_bytes" not in predicted:
        return ExhaustionRow(program, None, predicted, predicted, predicted)
    # `fit` of the peer copies its arrays into the device's memory.
    limit = -(-(predicted["safe_bytes"] + predicted["data_bytes"]) // MEBIBYTE) * MEBIBYTE

    def train(name: str, *options: str) -> Measured:
        return runs.once(f"{name} {program}", lambda: _train(program, limit, options), limit, by_lowtide=True)

    halved = runs.once(f"halving search {program}", lambda: _halve(program, limit), limit, by_lowtide=False)
    planned = train("planned", "--budget", f"{limit // MEBIBYTE}MiB")
    return ExhaustionRow(program, limit, planned, train("found out") if program in FOUND_OUT else {}, halved)


def _arguments(program: str, batch: int) -> list[str]:
    return [program, "--batch", str(batch), "--samples", str(STEPS_PER_EPOCH * BATCHES[program])]


def _predict(program: str) -> Measured:
    """Return what a step takes with the batch that fits."""
    with folder_for_runs() as folder:
        arguments = _arguments(program, BATCHES[program] // TIMES_TOO_LARGE)
        ended = run([str(SCRIPT), str(folder), *arguments, "--predict"], folder, TIMEOUT_SECONDS)
        return _result(folder) if ended.code == 0 else {"failed": ended.last_line}


def _train(program: str, limit: int, options: Sequence[str]) -> Measured:
    with folder_for_runs() as folder:
        arguments = _arguments(program, BATCHES[program])
        command = lowtide("--out", str(folder / "run"), *options, str(SCRIPT), str(folder), *arguments)
        # Without --budget the limit is one that lowtide only finds in the environment.
        variables = {} if options else {"TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit // MEBIBYTE)}
        ended = run(command, folder, TIMEOUT_SECONDS, **variables)
        events = History(folder / "run").read()
        plans = [event for event in events if isinstance(event, Planned)]
        return {
            **_result(folder),
            **_counts(folder, BATCHES[program]),
            "code": ended.code,
            "restarts": sum(isinstance(event, AttemptStarted) for event in events) - 1,
            "changes": [f"{event.change}: {event.reason}" for event in events if isinstance(event, Decided)],
            "pieces": max((event.pieces for event in plans), default=1),
            "slowdown": max((event.slowdown for event in plans), default=1.0),
            "seconds": round(ended.seconds, 1),
            **({} if ended.code == 0 else {"unfinished": ended.last_line}),
        }


def _halve(program: str, limit: int) -> Measured:
    """Start again with half of the batch until a training reaches its end, as `find_executable_batch_size` does.

    A process that ran out of memory may have crashed, so each trial is a process of its own.
    """
    batch, trials, again = BATCHES[program], 0, 0
    with folder_for_runs() as folder:
        while batch:
            trials += 1
            ended = run(
                [str(SCRIPT), str(folder), *_arguments(program, batch)], folder, TRIAL_SECONDS,
                **allocator_environment(limit),
            )  # fmt: skip
            counts = _counts(folder, batch)
            if ended.code == 0:
                return {**_result(folder), **counts, "restarts": trials - 1, "batch": batch, "trained_again": again}
            if not _ran_out(ended):
                return {"failed": ended.last_line}
            again += counts["samples_trained"]
            (folder / "steps.jsonl").unlink(missing_ok=True)
            batch //= 2
    return {"failed": "no batch size trains"}


def _ran_out(ended: Ended) -> bool:
    return ended.code < 0 or "ResourceExhaustedError" in ended.stderr or "MemoryError" in ended.stderr


def _result(folder: Path) -> Measured:
    path = folder / "result.json"
    found: Measured = json.loads(path.read_text()) if path.exists() else {}
    return found


def _counts(folder: Path, batch: int) -> Measured:
    """Return how many samples were trained, and how many of them again after a restart."""
    path = folder / "steps.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    updates = {updates for _, updates in lines}
    return {"samples_trained": batch * len(lines), "trained_again": batch * (len(lines) - len(updates))}


# -- the report --------------------------------------------------------------------------------------------------------

COLUMNS = (
    "program", "batch", "limit", "planned: restarts", "micro-batches", "time, estimated", "effective batch",
    "samples trained twice", "limit found out: restarts", "effective batch", "samples trained twice",
    "halving search: restarts", "effective batch", "samples trained twice",
)  # fmt: skip


def report(rows: Sequence[ExhaustionRow]) -> Section:
    cells = [
        [
            row.program,
            str(BATCHES[row.program]),
            mebibytes(row.limit_bytes),
            _cell(row.planned, "restarts"),
            _cell(row.planned, "pieces"),
            f"{row.planned['slowdown'] - 1:+.0%}" if "slowdown" in row.planned else "n/a",
            _effective_batch(row.program, row.planned),
            _cell(row.planned, "trained_again"),
            _cell(row.found_out, "restarts"),
            _effective_batch(row.program, row.found_out),
            _cell(row.found_out, "trained_again"),
            _cell(row.halved, "restarts"),
            _cell(row.halved, "batch"),
            _cell(row.halved, "trained_again"),
        ]
        for row in rows
    ]
    ways = [(row, each) for row in rows for each in (row.planned, row.found_out) if each]
    working = [each for row, each in ways if _is_whole(each) and each["restarts"] <= MOST_RESTARTS]
    bars = [
        Bar(
            f"a batch {TIMES_TOO_LARGE} times too large trains after at most {MOST_RESTARTS} restarts, as one batch",
            f"{len(working)} of {len(ways)}; at most {max((each['restarts'] for each in working), default=0)} restarts",
            len(working) == len(ways),
        )
    ]
    notes = [
        f"{row.program}: {each.get('failed') or each.get('unfinished')}" for row, each in ways if not _is_whole(each)
    ]
    notes += [f"{row.program}: {change}" for row, each in ways for change in each.get("changes", ())]
    return Section("Batches that are too large", COLUMNS, cells, bars, notes)


def _is_whole(result: Measured) -> bool:
    """Whether a training reached its end with as many updates as with the whole batch."""
    return result.get("code") == 0 and result.get("updates") == EPOCHS * STEPS_PER_EPOCH


def _effective_batch(program: str, result: Measured) -> str:
    updates = result.get("updates")
    return "n/a" if not updates else str(EPOCHS * STEPS_PER_EPOCH * BATCHES[program] // updates)


def _cell(result: Measured, name: str) -> str:
    return str(result.get(name, "n/a"))
