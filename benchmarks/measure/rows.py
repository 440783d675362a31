"""The measurements of each case, the figures computed from them, and their requirements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common.report import Bar
from benchmarks.measure.cases import Exhaustion, Training
from benchmarks.measure.overhead import Overhead, compare, is_unmeasurable

ATTRIBUTED = 0.95
MOST_OVERHEAD = 1.10
VARIABLE_KINDS = ("weights", "optimizer")

Measured = Mapping[str, Any]
"""What a process gave; "failed" says why there is no answer, and an empty one that it was not run."""


@dataclass(frozen=True)
class TrainingRow:
    """A program that trains: its plain runs, its recorded runs and XProf's view of one step."""

    case: Training
    plain: tuple[Measured, ...] = ()
    recorded: tuple[Measured, ...] = ()
    xprof: Measured | None = None

    @property
    def answered(self) -> tuple[Measured, ...]:
        return tuple(run for run in self.recorded if "recorded_peaks" in run)

    @property
    def equal(self) -> tuple[int, int] | None:
        """How many recorded steps have the peak that the program's own question gave, of how many."""
        pairs = [
            (peak, run["peaks"][int(step) - 1]) for run in self.answered for step, peak in run["recorded_peaks"].items()
        ]
        return (sum(said == own for said, own in pairs), len(pairs)) if pairs else None

    @property
    def attributed(self) -> float | None:
        """The least share, over the runs, of the bytes at the peak that have a layer or are a variable."""
        return min((attributed_share(run) for run in self.answered), default=None)

    @property
    def overhead(self) -> Overhead | None:
        plain = [run["seconds"] for run in self.plain if "seconds" in run]
        recorded = [run["seconds"] for run in self.answered]
        return compare(plain, recorded) if plain and recorded else None


@dataclass(frozen=True)
class ExhaustionRow:
    """A program that runs out of memory: TensorFlow's message beside lowtide's explanations."""

    case: Exhaustion
    plain: Measured
    recorded: Measured
    tried: tuple[Measured, ...] = ()

    @property
    def right(self) -> bool | None:
        """Whether every explanation of the run names the cause; None without an answer."""
        causes = self.recorded.get("causes")
        return None if causes is None else all(cause == self.case.cause for cause in causes)


def attributed_share(run: Measured) -> float:
    """Of the allocated bytes at the peak: those of buffers with a layer, and of variables that belong to none."""
    variables = sum(run["unnamed_by_kind"].get(kind, 0) for kind in VARIABLE_KINDS)
    share: float = (run["in_layers_bytes"] + variables) / run["peak_bytes"]
    return share


def split_xprof(xprof: Measured) -> tuple[float, float, float]:
    """Shares of XProf's peak: with an op's name, one block of a compiled function, and from before the profile."""
    whole = xprof["peak_bytes"]
    function = sum(size for name, size in xprof["by_op"].items() if name.startswith(("__inference_", "__forward_")))
    unnamed = xprof["by_op"].get("(no name)", 0)
    named = sum(xprof["by_op"].values()) - function - unnamed
    return named / whole, function / whole, (sum(xprof["special"].values()) + unnamed) / whole


# -- the bars -----------------------------------------------------------------------------------------


def bars(trainings: Sequence[TrainingRow], exhaustions: Sequence[ExhaustionRow]) -> list[Bar]:
    """The bars of the rows; a bar whose case has no answer does not hold."""
    return [*(_training_bars(trainings) if trainings else ()), *(_exhaustion_bars(exhaustions) if exhaustions else ())]


def _training_bars(rows: Sequence[TrainingRow]) -> Iterator[Bar]:
    compared = [row.equal or (0, 1) for row in rows]
    same, steps = sum(pair[0] for pair in compared), sum(pair[1] for pair in compared)
    yield Bar("a recorded step's peak equals the allocator's statistic", f"{same} of {steps} steps", same == steps)
    lowest = min(row.attributed or 0.0 for row in rows)
    words = f"at least {ATTRIBUTED:.0%} of the bytes at the peak have a layer or are a variable"
    yield Bar(words, f"lowest {lowest:.1%}", lowest >= ATTRIBUTED)
    costs = [row.overhead for row in rows]
    known = [cost for cost in costs if cost is not None]
    cheap = sum(cost.recording <= MOST_OVERHEAD for cost in known)
    highest = f", highest {max(cost.recording for cost in known) - 1:+.1%}" if known else ""
    words = f"recording costs at most {MOST_OVERHEAD - 1:.0%} of the recorded steps"
    yield Bar(words, f"{cheap} of {len(rows)} programs{highest}", cheap == len(rows))
    silent = sum(is_unmeasurable(cost.after, cost.after_noise) for cost in known)
    yield Bar("nothing measurable in the other steps", f"{silent} of {len(rows)} programs", silent == len(rows))


def _exhaustion_bars(rows: Sequence[ExhaustionRow]) -> Iterator[Bar]:
    right = sum(row.right is True for row in rows)
    yield Bar("every explanation names the right cause", f"{right} of {len(rows)} runs", right == len(rows))
