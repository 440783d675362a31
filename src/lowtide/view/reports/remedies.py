"""What is shown of an examination: what holds the peak, and the remedies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowtide.planning.plan import format_slowdown
from lowtide.planning.remedies.remedy import BOUND, METHODS, PROCESS, Examination, Remedy
from lowtide.units import format_bytes, format_count
from lowtide.view.reports.tide import VERDICTS


@dataclass(frozen=True)
class RemedyReport:
    """An examination, and the budget if given."""

    examination: Examination
    budget_bytes: int | None = None

    @property
    def title(self) -> str:
        """The target, with its batch size if it has one."""
        tide = self.examination.tide
        batch = None if tide is None else tide.batch_size
        return self.examination.target if batch is None else f"{self.examination.target} · batch {batch:,}"

    @property
    def fits(self) -> bool | None:
        """Whether the program fits as it is; None without a budget."""
        if self.budget_bytes is None:
            return None
        tide = self.examination.tide
        bound = self.examination.total_bytes if tide is None else tide.safe_bytes
        return bound <= self.budget_bytes

    @property
    def verdict(self) -> str | None:
        """Whether it fits, in words; None without a budget."""
        if self.budget_bytes is None:
            return None
        tide, budget = self.examination.tide, self.budget_bytes
        bound = self.examination.total_bytes if tide is None else tide.safe_bytes
        status = "fits" if self.fits else "does_not_fit"
        return VERDICTS[status].format(budget=format_bytes(budget), margin=format_bytes(abs(budget - bound)))

    @property
    def headline(self) -> str:
        """The answer in a line."""
        examination = self.examination
        peak = format_bytes(examination.total_bytes)
        if not examination.remedies:
            return f"peak {peak}; no change is known that would save a notable part of it"
        found = format_count(len(examination.remedies), "remedy", "remedies")
        keeping = sum(remedy.changes is None for remedy in examination.remedies)
        return f"peak {peak}; {found}, {keeping:,} of them without any change of results"

    def saving(self, remedy: Remedy) -> str:
        """What a remedy saves, in words."""
        if remedy.of == PROCESS:
            return "of the process"
        if remedy.of == BOUND:
            return f"of the safe bound: {format_bytes(remedy.safe_bytes or 0)}"
        share = remedy.saves_bytes / max(self.examination.total_bytes, 1)
        after = "" if remedy.peak_bytes is None else f": {format_bytes(remedy.peak_bytes)}"
        return f"at the peak, {share:.0%}{after}"

    def details(self, remedy: Remedy) -> list[str]:
        """What else there is to say about a remedy: its costs, whether it fits, and how it was found."""
        lines = [remedy.changes and f"changes results: {remedy.changes}"]
        if remedy.slowdown is not None:
            lines.append(f"{format_slowdown(remedy.slowdown)} time, estimated; results stay the same")
        if self.budget_bytes is not None and not self.fits and remedy.fits(self.budget_bytes):
            lines.append(f"fits in {format_bytes(self.budget_bytes)} with this alone")
        return [line for line in (*lines, METHODS[remedy.method]) if line]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for --json."""
        budget = self.budget_bytes
        data = self.examination.to_dict()
        data["budget"] = None if budget is None else {"bytes": budget, "fits": self.fits}
        for entry, remedy in zip(data["remedies"], self.examination.remedies, strict=True):
            entry["fits"] = None if budget is None else remedy.fits(budget)
        return data
