"""A remedy: one change of a program, and the bytes that it saves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lowtide.planning.remedies.at_peak import PeakHolder
from lowtide.tide.tide import Tide

JSON_SCHEMA_VERSION = 1

# What a remedy lowers: the peak of the step, its safe bound alone, or the memory of the process outside of TensorFlow's
# allocator.
PEAK, BOUND, PROCESS = "peak", "bound", "process"

# How the bytes were found.
SIMULATED, PLANNED, COUNTED, FORECAST = "simulated", "planned", "counted", "forecast"
METHODS = {
    SIMULATED: "the step was traced with this change and simulated",
    PLANNED: "the planner rewrote the step, traced it again and simulated it",
    COUNTED: "the bytes of the tensors, times their copies as measured",
    FORECAST: "the buffers of the pipeline's stages",
}

# A remedy is worth a word if it saves this share of the peak. A saving is the difference of two peaks, and each of them
# differs by 2 to 4% between processes.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Remedy:
    """One change of a program, and the bytes that it saves."""

    kind: str
    """constants, optimizer, batch, input, remat, precision or pipeline."""
    problem: str
    """What holds the bytes."""
    advice: str
    """What to write instead."""
    saves_bytes: int
    of: str = PEAK
    """What becomes smaller: `PEAK`, `BOUND` or `PROCESS`."""
    peak_bytes: int | None = None
    """The predicted peak with this change; None if it does not lower the peak of a step."""
    safe_bytes: int | None = None
    """The safe bound with this change."""
    changes: str | None = None
    """What changes in the results; None if they stay the same."""
    slowdown: float | None = None
    """The extra time, as a share of the step's; None if it is not known."""
    method: str = SIMULATED
    source: str | None = None
    """The line of the user's program, such as "train.py:66"."""

    def fits(self, budget_bytes: int) -> bool | None:
        """Whether the step keeps a budget with this change alone; None if it does not lower the peak of a step."""
        return None if self.safe_bytes is None else self.safe_bytes <= budget_bytes

    def to_dict(self) -> dict[str, Any]:
        """Return the remedy as plain data."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Examination:
    """What holds the memory of a program, and the remedies, the one that saves most first."""

    target: str
    remedies: tuple[Remedy, ...]
    tide: Tide | None = None
    """The predicted step; None for a data pipeline alone."""
    holders: tuple[PeakHolder, ...] = ()
    """What holds most of the peak, the largest first."""
    notes: tuple[str, ...] = ()
    total_bytes: int = 0
    """What shares refer to: the peak of the step, or of the pipeline."""

    @property
    def problems(self) -> tuple[Remedy, ...]:
        """The remedies that keep all results; the others are options."""
        return tuple(each for each in self.remedies if each.changes is None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with a `schema_version`."""
        tide = self.tide
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "target": self.target,
            "batch_size": None if tide is None else tide.batch_size,
            "peak_bytes": self.total_bytes,
            "safe_bytes": None if tide is None else tide.safe_bytes,
            "breakdown": None if tide is None else tide.breakdown(),
            "holders": [asdict(holder) for holder in self.holders],
            "remedies": [remedy.to_dict() for remedy in self.remedies],
            "problems": len(self.problems),
            "notes": list(self.notes),
        }


def lowered(
    before: Tide,
    after: Tide,
    kind: str,
    problem: str,
    advice: str,
    least_share: float = 0.0,
    most_bytes: int | None = None,
    **more: Any,
) -> Remedy:
    """Return the remedy that turns one tide into another.

    If the peak falls by less than `least_share` of it and the safe bound falls by more, the remedy lowers the bound.
    `most_bytes` is what the change can save for certain reasons; the rest of a difference is chance.
    """
    saved, of = before.peak_bytes - after.peak_bytes, PEAK
    bound = before.safe_bytes - after.safe_bytes
    if saved < least_share * before.peak_bytes and bound > saved:
        saved, of = bound, BOUND
    saved = saved if most_bytes is None else min(saved, most_bytes)
    peak = max(after.peak_bytes, before.peak_bytes - saved) if of == PEAK else after.peak_bytes
    return Remedy(kind, problem, advice, saved, of, peak, after.safe_bytes, **more)


def rank(remedies: Iterable[Remedy], total_bytes: int, least_share: float = LEAST_SHARE) -> tuple[Remedy, ...]:
    """Return the remedies that save enough to be worth a word, the one that saves most first."""
    least = max(least_share * total_bytes, 1)
    return tuple(sorted((each for each in remedies if each.saves_bytes >= least), key=lambda each: -each.saves_bytes))


def name_some(names: Sequence[str], most: int = 3) -> str:
    """Return names as text: "conv1, conv2, conv3 and 4 more"."""
    names = list(dict.fromkeys(names))
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
