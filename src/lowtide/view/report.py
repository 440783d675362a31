"""What the views show: a tide and the questions that were asked about it."""

from dataclasses import dataclass
from typing import Any

from lowtide.tide.tide import METHODS, Tide
from lowtide.units import format_bytes


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch whose safe bound stays in the budget; a batch size of 0 says that not even one fits."""

    batch_size: int
    safe_bytes: int | None


@dataclass(frozen=True)
class Report:
    """A tide, the budget it was asked about if any, and the answer to that."""

    tide: Tide
    budget_bytes: int | None = None
    largest_batch: LargestBatch | None = None
    top: int = 10

    @property
    def fits(self) -> bool | None:
        """Whether the safe bound stays in the budget; None without a budget."""
        return None if self.budget_bytes is None else self.tide.fits(self.budget_bytes)

    @property
    def title(self) -> str:
        """The target, and its batch where it has one."""
        batch = self.tide.batch_size
        return self.tide.target if batch is None else f"{self.tide.target} · batch {batch:,}"

    @property
    def verdict(self) -> str | None:
        """Whether it fits, in words; None without a budget."""
        if self.budget_bytes is None:
            return None
        budget, tide = format_bytes(self.budget_bytes), self.tide
        if self.fits:
            return f"fits in {budget}, with {format_bytes(self.budget_bytes - tide.safe_bytes)} to spare"
        if tide.peak_bytes <= self.budget_bytes:
            short = format_bytes(tide.safe_bytes - self.budget_bytes)
            return f"may run out in {budget}: the expected peak fits, the safe bound is {short} over"
        return f"does not fit in {budget}: {format_bytes(tide.peak_bytes - self.budget_bytes)} too much"

    @property
    def largest_batch_line(self) -> str | None:
        """The largest batch in words; None where it was not asked for."""
        if self.largest_batch is None or self.budget_bytes is None:
            return None
        budget, answer = format_bytes(self.budget_bytes), self.largest_batch
        if answer.batch_size == 0:
            return f"not even a batch of 1 is sure to fit in {budget}"
        bound = "" if answer.safe_bytes is None else f" (safe bound {format_bytes(answer.safe_bytes)})"
        return f"largest batch in {budget}: {answer.batch_size:,}{bound}"

    @property
    def method_line(self) -> str:
        """How the numbers were found."""
        return METHODS.get(self.tide.method, self.tide.method)

    @property
    def building_line(self) -> str:
        """What building the graph took, apart from executing it."""
        building = self.tide.building
        parts = [
            f"{building.traced_nodes:,} nodes traced",
            f"{building.executed_nodes:,} executed",
            f"graph {format_bytes(building.graph_bytes)}",
        ]
        if building.host_bytes is not None:
            parts.append(f"host memory {format_bytes(building.host_bytes)}")
        return " · ".join(parts)

    @property
    def unmodelled_line(self) -> str | None:
        """The ops that were sized from their outputs alone; None if there are none."""
        ops = self.tide.unmodelled
        if not ops:
            return None
        listed = ", ".join(f"{op.op} ×{op.count} ({format_bytes(op.bytes)})" for op in ops)
        return f"{listed}; sized from their outputs, and the safe bound is wider for it"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        data = self.tide.to_dict(top=self.top)
        data["budget"] = None
        if self.budget_bytes is not None:
            data["budget"] = {
                "bytes": self.budget_bytes,
                "fits": self.fits,
                "largest_batch_size": None if self.largest_batch is None else self.largest_batch.batch_size,
            }
        return data


def shape_text(dtype: str, shape: tuple[int, ...] | None) -> str:
    """Return a tensor's type as it is read aloud: "float32 64×112×112×64"."""
    if shape is None:
        return f"{dtype} ?"
    return f"{dtype} {'×'.join(map(str, shape))}" if shape else f"{dtype} scalar"
