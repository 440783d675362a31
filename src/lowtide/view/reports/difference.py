"""What is shown of the difference of two tides, and the answers to the questions about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.tide.diff import Change, Difference, LayerChange, TensorChange
from lowtide.units import GrowthLimit, format_bytes, format_change
from lowtide.view.reports.tide import TideReport, shape_text

SIGNS = {"added": "+", "removed": "-", "grown": "↑", "shrunk": "↓", "same": " "}

# How many of the most changed layers are shown with tensors, and how many tensors of each.
DETAILED_LAYERS = 3
DETAILED_TENSORS = 4


@dataclass(frozen=True)
class DifferenceReport:
    """A difference, the report of the later tide, and the allowed growth, if given."""

    difference: Difference
    report: TideReport
    max_growth: GrowthLimit | None = None

    @property
    def exceeded(self) -> bool | None:
        """Whether the peak grew by more than allowed; None without a limit."""
        return None if self.max_growth is None else self.difference.exceeds(self.max_growth)

    @property
    def verdict(self) -> str | None:
        """Whether the growth is allowed, in words; None without a limit."""
        if self.max_growth is None:
            return None
        allowed = str(self.max_growth)
        if self.max_growth.share is not None:
            allowed += f" ({format_bytes(self.max_growth.above(self.difference.peak.before_bytes))})"
        if self.difference.growth_bytes <= 0:
            return "the peak did not grow"
        if not self.exceeded:
            return f"the peak grew by no more than the {allowed} allowed"
        return f"the peak grew by {format_bytes(self.difference.growth_bytes)}, more than the {allowed} allowed"

    @property
    def verdicts(self) -> list[tuple[bool, str]]:
        """For each question: whether the answer is yes, and the answer in words."""
        asked = ((self.exceeded is False, self.verdict), (bool(self.report.fits), self.report.verdict))
        return [(good, text) for good, text in asked if text is not None]

    @property
    def passes(self) -> bool:
        """Whether the answer to every question is yes."""
        return all(good for good, _ in self.verdicts)

    def layer_rows(self) -> list[tuple[str, Change]]:
        """Return the rows of the table of layers, whose sum is the growth: the most changed, the rest, the slack."""
        changed = self.difference.changed
        shown, rest = changed[: self.report.top], changed[self.report.top :]
        rows: list[tuple[str, Change]] = [(f"{SIGNS[change.status]} {layer_text(change)}", change) for change in shown]
        if rest:
            rows.append((f"  {len(rest):,} more", _sum(rest)))
        return [*rows, ("  slack", self.difference.slack)]

    def detailed_layers(self) -> list[LayerChange]:
        """Return the layers whose tensors are shown."""
        return [change for change in self.difference.changed[: min(DETAILED_LAYERS, self.report.top)] if change.tensors]

    def to_dict(self) -> dict[str, Any]:
        """Return the difference and the answers as plain data."""
        data, limit = self.difference.to_dict(), self.max_growth
        data["max_growth"] = None
        if limit is not None:
            allowed = limit.above(self.difference.peak.before_bytes)
            data["max_growth"] = {"given": str(limit), "bytes": allowed, "exceeded": self.exceeded}
        return data


def layer_text(change: LayerChange) -> str:
    """Return the name of a layer, and its previous name if that differs."""
    was = "" if change.was is None else f" (was {change.was})"
    return f"{change.layer or '(no layer)'}{was}"


def tensor_name(change: TensorChange) -> str:
    """Return the name of a tensor in a list: its op, or its own name for a variable."""
    tensor = change.tensor
    return (tensor.name if tensor.op == "Variable" else tensor.op) or ""


def tensor_text(change: TensorChange) -> str:
    """Return the type of a tensor before and after: "float32 64×10 -> 64×20"; one type if it has not changed."""
    old, new = change.before, change.after
    if old is None or new is None or (old.dtype, old.shape) == (new.dtype, new.shape):
        return shape_text(change.tensor.dtype or "", change.tensor.shape)
    after = shape_text(new.dtype or "", new.shape)
    return f"{shape_text(old.dtype or '', old.shape)} -> {after.removeprefix(f'{old.dtype} ')}"


def tensor_sign(change: TensorChange) -> str:
    """Return whether a tensor was added, removed, grew or shrank, as one character."""
    if change.before is None or change.after is None:
        return SIGNS["added" if change.before is None else "removed"]
    return SIGNS["grown" if change.growth_bytes > 0 else "shrunk"]


def change_cells(change: Change) -> tuple[str, str, str]:
    """Return the bytes before, after, and the growth."""
    return format_bytes(change.before_bytes), format_bytes(change.after_bytes), format_change(change.growth_bytes)


def _sum(changes: Sequence[Change]) -> Change:
    return Change(sum(change.before_bytes for change in changes), sum(change.after_bytes for change in changes))
