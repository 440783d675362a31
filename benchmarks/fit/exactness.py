"""Exactness: a planned step computes what the plain one computes, and the peers do not always."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.report import Bar, Section, percent
from benchmarks.fit.runs import Measured, Runs, budget_for, start
from benchmarks.fit.suite import BLOCKS, PLAIN, PLANNED, REMAT, SCOPE, STEPS, TITLES, Case

# Of the activations; the larger ones only where a plan would split the batch else, which changes the last digits.
SHARES = (0.5, 0.7, 0.85)
BATCHES = 4
# Half a batch asks the same of a plan, in half the time.
ROWS_SHARE = 2
# Two runs show whether bits are the same; three are needed for how far apart runs are.
PLAIN_RUNS, DETERMINISTIC_RUNS = 3, 2
# keras.remat is tf.recompute_grad under another name: two programs show it, one with dropout and one with averages.
SHOWN_IN_FULL = ("transformer24", "resnet50")
KINDS = ("losses", "weights", "averages", "seeds", "optimizer")
# Programs with dropout whose optimizer can be replaced by plain gradient descent.
DROPOUT = ("transformer24",)
# A slope from float32 losses is right to about a percent.
SLOPE_TOLERANCE = 0.03

Distances = Mapping[str, float]
"""The largest relative difference between two runs, by kind of variable; 0 is the same bits."""


@dataclass(frozen=True)
class ExactnessRow:
    """A case: how far plain runs are from each other, and how far each way is from them."""

    case: Case
    spread: Distances
    """The largest distance between two plain runs."""
    ways: dict[str, Measured]
    """Per way the distances from the nearest plain run, or why there are none."""
    slopes: dict[str, Measured] = field(default_factory=dict)
    fitted: Measured = field(default_factory=dict)
    share: float | None = None
    """Of the activations, for which the step was planned."""
    pieces: int = 1
    """Into how many pieces the plan splits the batch. With more than one the same bits are not expected."""

    @property
    def is_repeatable(self) -> bool:
        """Whether plain runs give the same bits."""
        return bool(self.spread) and not any(self.spread.values())

    def agrees(self, way: str) -> bool | None:
        """Whether a way gives the plain bits, or what another plain run could have given; None without an answer."""
        found = self.ways.get(way, {}).get("distances")
        if not found or not self.spread:
            return None
        return found["seeds"] == 0 and all(found[kind] <= self.spread[kind] for kind in KINDS)


# -- comparing runs ---------------------------------------------------------------------------------


def distances(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float]:
    """How far two runs are apart: variables are named kind/name, losses are one array."""
    found = dict.fromkeys(KINDS, 0.0)
    for name, first in one.items():
        kind = name.partition("/")[0]
        found[kind] = max(found[kind], _distance(first, other[name]))
    return found


def _distance(first: Any, second: Any) -> float:
    if np.array_equal(first, second):
        return 0.0
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    apart = float(np.max(np.abs(first - second)))
    return apart / max(float(np.max(np.abs(first))), 1e-12) if np.isfinite(apart) else float("inf")


def widest(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The largest distance between any two of the runs."""
    pairs = [distances(one, other) for one, other in itertools.combinations(runs, 2)]
    return {kind: max(pair[kind] for pair in pairs) for kind in KINDS}


def nearest(run: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The distance from whichever of the others is closest, kind by kind."""
    found = [distances(other, run) for other in others]
    return {kind: min(pair[kind] for pair in found) for kind in KINDS}


# -- running ----------------------------------------------------------------------------------------


class Kept:
    """Variables after the last step, in files that live as long as the comparison."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def run(self, child: str, case: Case, way: str, *more: str, budget: int | None = None) -> Measured:
        """Runs a child and reads the variables it kept, with its losses; without an answer only why."""
        path = self.folder / "variables.npz"
        path.unlink(missing_ok=True)
        arguments = [case.name, "--way", way, "--variables", str(path), *_rows(case), *more]
        arguments += [] if budget is None else ["--budget", str(budget)]
        result = start(child, arguments)
        if "losses" not in result:
            return {"without": result}
        with np.load(path) as file:
            values = {**{name: file[name] for name in file.files}, "losses": np.array(result["losses"])}
        return {"values": values, "result": result}


def _rows(case: Case) -> tuple[str, str]:
    return "--batch-size", str(case.batch_size // ROWS_SHARE)


def measure(case: Case, runs: Runs) -> ExactnessRow:
    ways = (BLOCKS, *((REMAT, SCOPE) if case.name in SHOWN_IN_FULL else ()))
    found = runs.once(
        f"{case.name} exactness", lambda: _compare(case, ways), repr(case), SHARES, STEPS, _rows(case), by_lowtide=True
    )
    budget = found.get("budget_bytes")
    slopes = {}
    for way in (PLAIN, PLANNED, BLOCKS, REMAT) if case.name in DROPOUT and budget else ():
        arguments = [case.name, "--way", way, *_rows(case), *(["--budget", str(budget)] if way == PLANNED else [])]
        slopes[way] = runs.once(
            f"{case.name} {way} gradient",
            lambda arguments=arguments: start("gradient", arguments),
            *arguments,
            by_lowtide=way == PLANNED,
        )
    fitted: Measured = {}
    if case.deterministic and budget:
        fitted = runs.once(f"{case.name} fit", lambda: _compare_fits(case, budget), repr(case), budget, by_lowtide=True)
    ways_found, pieces = found.get("ways", {}), found.get("pieces", 1)
    return ExactnessRow(case, found.get("spread", {}), ways_found, slopes, fitted, found.get("share"), pieces)


def _compare(case: Case, ways: Sequence[str]) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        kept = Kept(folder)
        batches = ("--batches", str(BATCHES))
        count = DETERMINISTIC_RUNS if case.deterministic else PLAIN_RUNS
        plain = [kept.run("train", case, PLAIN, *batches) for _ in range(count)]
        if any("values" not in run for run in plain):
            return {"failed": f"a plain run gave nothing: {plain}"[:300]}
        references = [run["values"] for run in plain]
        for share in SHARES:
            budget = budget_for(plain[0]["result"], share)
            run = kept.run("train", case, PLANNED, *batches, budget=budget)
            pieces = run.get("result", {}).get("pieces", 1)
            if "values" in run and pieces == 1:
                break
        found = {PLANNED: run}
        found |= {way: kept.run("train", case, way, *batches) for way in ways}
        distances = {
            way: {"distances": nearest(run["values"], references)} if "values" in run else run["without"]
            for way, run in found.items()
        }
        return {
            "spread": widest(references), "ways": distances, "share": share, "budget_bytes": budget, "pieces": pieces,
        }  # fmt: skip


def _compare_fits(case: Case, budget: int) -> Measured:
    """`fit` with callbacks and validation, in one go and from what was saved in the middle of it; plain and planned."""
    with tempfile.TemporaryDirectory() as folder:
        kept, saved = Kept(folder), str(Path(folder) / "half.keras")
        runs: dict[tuple[str, str], Measured] = {}
        for way, limit in ((PLAIN, None), (PLANNED, budget)):
            whole = kept.run("fitting", case, way, "--save", saved, budget=limit)
            rest = ("--first-epoch", "2", "--load", saved)
            runs[way, "whole"] = whole
            runs[way, "restored"] = whole if "without" in whole else kept.run("fitting", case, way, *rest, budget=limit)
        found: Measured = {}
        for manner in ("whole", "restored"):
            pair = [runs[way, manner] for way in (PLAIN, PLANNED)]
            missing = [run["without"] for run in pair if "without" in run]
            found[manner] = missing[0] if missing else distances(pair[0]["values"], pair[1]["values"])
        return found


# -- telling ----------------------------------------------------------------------------------------

COLUMNS = (
    "program", "plain runs among themselves", "within", "planned", "agrees", TITLES[BLOCKS], "agrees", TITLES[REMAT],
    TITLES[SCOPE], "planned `fit` with callbacks", "saved and restored",
)  # fmt: skip


def report(rows: Sequence[ExactnessRow]) -> Section:
    notes = [
        f"{row.case.name}, {way}: {reason}"
        for row in rows
        for way, result in (*row.ways.items(), *row.fitted.items())
        if isinstance(result, Mapping) and (reason := _reason(result))
    ]
    for row in rows:
        notes += [_slope_note(row.case, way, result) for way, result in row.slopes.items()]
    return Section("Exactness", COLUMNS, [_cells(row) for row in rows], _bars(rows), notes)


def _reason(result: Mapping[str, Any]) -> str | None:
    return next((str(result[name]) for name in ("refused", "failed", "crashed", "error") if name in result), None)


def _cells(row: ExactnessRow) -> list[str]:
    return [
        row.case.name,
        _distance_words(row.spread),
        percent(row.share) + (f", {row.pieces} micro-batches" if row.pieces > 1 else "") if row.share else "n/a",
        _way_words(row, PLANNED),
        _yes(row.agrees(PLANNED)),
        _way_words(row, BLOCKS),
        _yes(row.agrees(BLOCKS)),
        _way_words(row, REMAT),
        _way_words(row, SCOPE),
        _distance_words(row.fitted.get("whole", {})),
        _distance_words(row.fitted.get("restored", {})),
    ]


def _yes(agrees: bool | None) -> str:
    return "n/a" if agrees is None else "yes" if agrees else "**no**"


def _way_words(row: ExactnessRow, way: str) -> str:
    result = row.ways.get(way)
    if result is None:
        return "not run"
    return _distance_words(result["distances"]) if "distances" in result else "fails"


def _distance_words(found: Mapping[str, Any]) -> str:
    if not all(kind in found for kind in KINDS):
        return "n/a"
    apart = [f"{kind} {found[kind]:.0e}" for kind in KINDS if found[kind]]
    return ", ".join(apart) or "same bits"


def slope_error(result: Mapping[str, Any]) -> float | None:
    """How far the gradient's length is from the slope of the loss, at the distance where they are closest."""
    if not result.get("slopes"):
        return None
    return min(abs(slope / result["length"] - 1) for slope in result["slopes"].values())


def _slope_note(case: Case, way: str, result: Mapping[str, Any]) -> str:
    error = slope_error(result)
    if error is None:
        return f"{case.name}, {way}: no gradient: {_reason(result)}"
    slopes = ", ".join(f"{value:.4f}" for value in result["slopes"].values())
    return (
        f"{case.name}, gradient with dropout, {TITLES[way]}: {result['apart']:.1e} of its length from the plain one; "
        f"length {result['length']:.4f}, slope of the loss along it {slopes}: off by {error:.1%}"
    )


def _bars(rows: Sequence[ExactnessRow]) -> list[Bar]:
    exact = [row for row in rows if row.case.deterministic]
    others = [row for row in rows if not row.case.deterministic]
    same = sum(row.is_repeatable and row.agrees(PLANNED) is True for row in exact)
    within = sum(row.agrees(PLANNED) is True for row in others)
    peers = sum(row.agrees(BLOCKS) is True for row in rows)
    bars = []
    if exact:
        words = f"losses and variables after {STEPS} steps are the plain bits where kernels are deterministic"
        bars.append(Bar(words, f"{same} of {len(exact)}", same == len(exact)))
        said = [_distance_words(row.fitted.get(manner, {})) for row in exact for manner in ("whole", "restored")]
        count = sum(words == "same bits" for words in said)
        bars.append(Bar("so with callbacks, and with a restored model", f"{count} of {len(said)}", count == len(said)))
    if others:
        words = "elsewhere within what plain runs differ by; averages and seeds too"
        bars.append(Bar(words, f"{within} of {len(others)}", within == len(others)))
    seen = f"planned {sum(row.agrees(PLANNED) is True for row in rows)}, tf.recompute_grad {peers} of {len(rows)}"
    bars.append(Bar("agreeing with plain, beside the peer", seen, all(row.agrees(PLANNED) for row in rows)))
    errors = {way: slope_error(result) for row in rows for way, result in row.slopes.items()}
    if errors:
        seen = ", ".join(f"{TITLES[way]} {'n/a' if error is None else f'{error:.1%}'}" for way, error in errors.items())
        own = errors.get(PLANNED)
        bars.append(
            Bar(
                "gradients with dropout agree with finite differences", seen, own is not None and own <= SLOPE_TOLERANCE
            )
        )
    return bars
