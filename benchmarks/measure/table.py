"""From the rows to the table, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.common.report import bars_markdown, table
from benchmarks.measure.message import layer_in
from benchmarks.measure.rows import (
    VARIABLE_KINDS,
    ExhaustionRow,
    Measured,
    TrainingRow,
    attributed_share,
    bars,
    split_xprof,
)

MEBIBYTE = 2**20


def _mebibytes(size: int) -> str:
    return f"{size / MEBIBYTE:,.1f}"


def _signed(ratio: float | None) -> str:
    return "n/a" if ratio is None else f"{100 * (ratio - 1):+.1f}%"


def _range(noise: tuple[float, float]) -> str:
    # One run has nothing to differ from.
    return "n/a" if noise == (1.0, 1.0) else f"{_signed(noise[0])} to {_signed(noise[1])}"


def _peak_cells(row: TrainingRow) -> list[str]:
    if row.equal is None or row.attributed is None:
        return [row.case.name, *["n/a"] * 4, *_xprof_cells(row.xprof)]
    worst = min(row.answered, key=attributed_share)
    rest = [(size, kind) for kind, size in worst["unnamed_by_kind"].items() if kind not in VARIABLE_KINDS]
    return [
        row.case.name,
        _mebibytes(worst["peak_bytes"]),
        f"{row.equal[0]} of {row.equal[1]}",
        f"{row.attributed:.1%}",
        ", ".join(f"{kind} {_mebibytes(size)}" for size, kind in sorted(rest, reverse=True)[:2]) or "nothing",
        *_xprof_cells(row.xprof),
    ]


def _xprof_cells(xprof: Measured | None) -> list[str]:
    if xprof is None:
        return ["not installed", *["n/a"] * 3]
    if "peak_bytes" not in xprof:
        return ["n/a"] * 4
    peak, own = xprof["peak_bytes"], xprof["own_peak_bytes"]
    named, function, before = split_xprof(xprof)
    compared = "equal" if peak == own else _signed(peak / own)
    return [f"{_mebibytes(peak)}, {compared}", f"{named:.1%}", f"{function:.1%}", f"{before:.1%}"]


_PEAK_COLUMNS = (
    "program", "peak", "steps equal to the allocator's statistic", "with a layer or a variable", "most of the rest",
    "XProf's peak, against the allocator's", "XProf: with an op", "XProf: one block of a function", "XProf: no name",
)  # fmt: skip


def _cost_cells(row: TrainingRow) -> list[str]:
    cost = row.overhead
    if cost is None:
        return [row.case.name, *["n/a"] * 8]
    plain = statistics.median(run["process_seconds"] for run in row.plain if "process_seconds" in run)
    recorded = statistics.median(run["process_seconds"] for run in row.answered)
    return [
        row.case.name,
        _signed(cost.recording),
        _range(cost.recording_noise),
        f"{cost.opening:.2f}",
        _signed(cost.with_pause),
        " and ".join(f"{pause:.2f}" for pause in cost.pauses),
        _signed(cost.after),
        _range(cost.after_noise),
        f"{plain:.0f} and {recorded:.0f}",
    ]


_COST_COLUMNS = (
    "program", "recorded steps", "plain runs among themselves", "of which opening, s",
    "with the steps that write the record", "these take longer, s", "other steps", "plain runs among themselves",
    "whole process, plain and recorded, s",
)  # fmt: skip


def _cause_cells(row: ExhaustionRow) -> list[str]:
    said = row.recorded
    if "causes" not in said:
        return [row.case.name, row.case.cause, *["n/a"] * 8]
    hits = sum(cause == row.case.cause for cause in said["causes"])
    return [
        row.case.name,
        row.case.cause,
        f"{row.plain.get('way', 'n/a')}, {said['way']}",
        f"{said['causes'][-1]}: {said['sentence']}",
        f"{hits} of {len(said['causes'])}",
        _batch_cell(row),
        said["line"] or "no",
        "n/a" if said["known_kind"] is None else f"{said['known_kind']:.0%}",
        f"{len(said['layers'])}",
        f"{row.plain['seconds']:.0f} and {said['seconds']:.0f}" if "seconds" in row.plain else "n/a",
    ]


def _batch_cell(row: ExhaustionRow) -> str:
    largest = row.recorded["largest_batch_size"]
    if row.case.cause != "batch":
        return ""
    if largest is None:
        return "not stated"
    tried = "; ".join(f"{run['batch_size']}: {_fit(run)}" for run in row.tried if "fits" in run)
    return f"{largest} ({tried or 'not tried'})"


def _fit(run: Measured) -> str:
    return "fits" if run["fits"] else f"runs out, {run['way']}"


_CAUSE_COLUMNS = (
    "case", "why", "ended, plain and under lowtide", "lowtide says", "explanations that name the cause",
    "largest batch that fits (tried)", "line", "held bytes with a kind", "layers named",
    "seconds, plain and under lowtide",
)  # fmt: skip


def _message_cells(row: ExhaustionRow) -> list[str]:
    said = row.plain
    if "way" not in said:
        return [row.case.name, *["n/a"] * 9]
    return [
        row.case.name,
        said["error"] or f"none ({said['way']})",
        said["asked"] or "no",
        said["op"] or "no",
        said["shape"] or "no",
        layer_in(said["op"], row.recorded.get("layers", ())) or "no",
        said["line"] or "no",
        "yes" if said["kinds"] else "no",
        "; ".join(f'"{advice} ..."' for advice in said["advice"]) or "none",
        f"{said['dump_lines']:,} of {said['lines']:,}",
    ]


_MESSAGE_COLUMNS = (
    "case", "exception", "asked for", "op", "shape", "layer, in the op's name", "line", "kinds of what is held",
    "advice", "lines of dump, of all",
)  # fmt: skip


def to_markdown(
    trainings: Sequence[TrainingRow], exhaustions: Sequence[ExhaustionRow], setting: Mapping[str, str]
) -> str:
    """The whole report; what each column is stands in the benchmark's README."""
    described = ", ".join(f"{key} {value}" for key, value in setting.items())
    versions = sorted({row.xprof["version"] for row in trainings if row.xprof and "version" in row.xprof})
    peer = f" XProf is {', '.join(versions)}." if versions else ""
    lines = ["# Recorded runs", "", f"Measured with {described}.{peer} Sizes are in MiB.", ""]
    lines += bars_markdown(bars(trainings, exhaustions))
    sections: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("The peak, and what holds it", _PEAK_COLUMNS, [_peak_cells(row) for row in trainings]),
        ("What recording costs", _COST_COLUMNS, [_cost_cells(row) for row in trainings]),
        ("Out of memory: lowtide", _CAUSE_COLUMNS, [_cause_cells(row) for row in exhaustions]),
        ("Out of memory: TensorFlow's own message", _MESSAGE_COLUMNS, [_message_cells(row) for row in exhaustions]),
    ]
    for title, columns, cells in sections:
        lines += ["", f"## {title}", "", *table(columns, cells)] if cells else []
    notes = _notes(trainings, exhaustions)
    if notes:
        lines += ["", "Without an answer:", "", *notes]
    return "\n".join(lines) + "\n"


def _notes(trainings: Sequence[TrainingRow], exhaustions: Sequence[ExhaustionRow]) -> list[str]:
    parts: list[tuple[str, Measured]] = []
    for training in trainings:
        parts += [(training.case.name, run) for run in (*training.plain, *training.recorded, training.xprof or {})]
    for exhaustion in exhaustions:
        runs = (exhaustion.plain, exhaustion.recorded, *exhaustion.tried)
        parts += [(exhaustion.case.name, run) for run in runs]
    return [f"- {name}: {run['failed']}" for name, run in parts if "failed" in run]
