"""What is shown of a tide, and the answers to the questions about it."""

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from lowtide.tide.address_space import Occupancy, Pinning, occupancy_at, pinnings_at
from lowtide.tide.tide import METHODS, Tide
from lowtide.units import format_bytes
from lowtide.view.axis import axis_top

# Free bytes are reported if they are at least this share of the peak, and this share of them is outside the largest
# free block.
_NOTABLE_FREE = 0.05
_NOTABLE_FRAGMENTATION = 0.3

VERDICTS = {
    "fits": "fits in {budget}, with {margin} to spare",
    "may_run_out": "may run out in {budget}: the expected peak fits, the safe bound is {margin} over",
    "does_not_fit": "does not fit in {budget}: {margin} too much",
}
"""Whether a step fits a budget, in words; the page fills them in for a budget that the user types there."""


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch whose safe bound is within the budget; a batch size of 0 if not even one row fits."""

    batch_size: int
    safe_bytes: int | None


@dataclass(frozen=True)
class TideReport:
    """A tide, the budget and the largest batch for it if requested, and for a recorded tide its prediction."""

    tide: Tide
    budget_bytes: int | None = None
    largest_batch: LargestBatch | None = None
    top: int = 10
    predicted: Tide | None = None

    @property
    def top_bytes(self) -> int:
        """The end of the axis of bytes."""
        highest = max(self.tide.peak_bytes, 0 if self.predicted is None else self.predicted.peak_bytes)
        return axis_top(highest, self.tide.safe_bytes, self.budget_bytes)

    @property
    def fits(self) -> bool | None:
        """Whether the safe bound is within the budget; None without a budget."""
        return None if self.budget_bytes is None else self.tide.fits(self.budget_bytes)

    @property
    def title(self) -> str:
        """The target, with its batch size if it has one."""
        batch = self.tide.batch_size
        return self.tide.target if batch is None else f"{self.tide.target} · batch {batch:,}"

    @property
    def verdict(self) -> str | None:
        """Whether it fits, in words; None without a budget."""
        if self.budget_bytes is None:
            return None
        tide, budget = self.tide, self.budget_bytes
        if self.fits:
            status, margin = "fits", budget - tide.safe_bytes
        elif tide.peak_bytes <= budget:
            status, margin = "may_run_out", tide.safe_bytes - budget
        else:
            status, margin = "does_not_fit", tide.peak_bytes - budget
        return VERDICTS[status].format(budget=format_bytes(budget), margin=format_bytes(margin))

    @property
    def largest_batch_line(self) -> str | None:
        """The largest batch in words; None if it was not requested."""
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
    def building_line(self) -> str | None:
        """The cost of building the graph, apart from executing it; None if unknown, as for some recordings."""
        building = self.tide.building
        parts = [
            f"{building.traced_nodes:,} nodes traced" if building.traced_nodes else None,
            f"{building.executed_nodes:,} executed" if building.executed_nodes else None,
            f"graph {format_bytes(building.graph_bytes)}" if building.graph_bytes else None,
            None if building.host_bytes is None else f"host memory {format_bytes(building.host_bytes)}",
        ]
        return " · ".join(part for part in parts if part is not None) or None

    @property
    def gap(self) -> float | None:
        """How far the predicted peak is above this one, as a share of it; None without a prediction."""
        if self.predicted is None or self.tide.peak_bytes == 0:
            return None
        return self.predicted.peak_bytes / self.tide.peak_bytes - 1

    @property
    def gap_text(self) -> str | None:
        """How far the predicted peak is from this one, in words; None without a prediction."""
        if self.gap is None:
            return None
        peak = "the recorded peak" if self.tide.recording is not None else "this peak"
        if abs(self.gap) < 0.0005:
            return f"within 0.1% of {peak}"
        return f"{abs(self.gap):.1%} {'above' if self.gap > 0 else 'below'} {peak}"

    @property
    def gap_line(self) -> str | None:
        """The predicted peak, and how far it is from this one; None without a prediction."""
        if self.predicted is None or self.gap is None:
            return None
        return f"predicted {format_bytes(self.predicted.peak_bytes)}: {self.gap_text}"

    @property
    def recorded_line(self) -> str | None:
        """Which step was recorded, and how much the recorded steps differ; None for a prediction."""
        recording = self.tide.recording
        if recording is None:
            return None
        if len(recording.steps) < 2:
            return f"recorded in step {recording.step:,}"
        line = f"recorded in step {recording.step:,} of {max(step.step for step in recording.steps):,}"
        peaks = [step.peak_bytes for step in recording.steps]
        lowest, highest = format_bytes(min(peaks)), format_bytes(max(peaks))
        if lowest == highest:
            return f"{line}; every recorded step has a peak of {lowest}"
        return f"{line}; peaks of the recorded steps {lowest} to {highest}"

    @property
    def limit_line(self) -> str | None:
        """The hard limit that the step ran under; None if there was none."""
        recording = self.tide.recording
        if recording is None or recording.limit_bytes is None:
            return None
        left = format_bytes(max(recording.limit_bytes - self.tide.peak_bytes, 0))
        return f"{format_bytes(recording.limit_bytes)}, of which {left} were not in use at the peak"

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """The address space at the peak; None for a tide without addresses."""
        return None if self.tide.buffers.address is None else occupancy_at(self.tide, self.tide.peak_event)

    @cached_property
    def pinnings(self) -> tuple[Pinning, ...]:
        """The buffers that separate the holes at the peak, those of the largest holes first."""
        return () if self.tide.buffers.address is None else pinnings_at(self.tide, self.tide.peak_event)

    @property
    def fragmented(self) -> bool:
        """Whether enough memory is free at the peak, in small enough pieces, to be reported."""
        if self.occupancy is None or self.occupancy.free_bytes < _NOTABLE_FREE * self.tide.peak_bytes:
            return False
        # The allocator also counts blocks that no buffer of this step uses.
        recording = self.tide.recording
        share = self.occupancy.fragmentation if recording is None else recording.fragmentation
        return share >= _NOTABLE_FRAGMENTATION

    @property
    def holes_line(self) -> str | None:
        """The memory that is free between the buffers at the peak; None for a tide without addresses."""
        if self.occupancy is None:
            return None
        if not self.occupancy.holes:
            return "nothing is free between the buffers at the peak"
        free, largest = format_bytes(self.occupancy.free_bytes), format_bytes(self.occupancy.largest_hole_bytes)
        return f"of the {free} that are free between the buffers at the peak, the largest block is {largest}"

    @property
    def free_line(self) -> str | None:
        """The memory that is free at the peak, by addresses and by the allocator; None if unknown."""
        recording = self.tide.recording
        own = None
        # If nothing is free, the fragmentation of the allocator is not a number.
        if recording is not None and not math.isnan(recording.fragmentation):
            own = f"of all that the allocator has free, {recording.fragmentation:.0%} is outside its largest block"
        return "; ".join(line for line in (self.holes_line, own) if line is not None) or None

    @property
    def pinning_line(self) -> str | None:
        """The buffers that separate the holes, in words; None if the holes are not reported."""
        if not self.fragmented or not self.pinnings:
            return None
        return "; ".join(_pinning_text(pinning) for pinning in self.pinnings)

    @property
    def unmodelled_line(self) -> str | None:
        """The ops whose memory is modelled by their outputs alone; None if there are none."""
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
        data["predicted"] = None
        if self.predicted is not None:
            predicted = self.predicted
            data["predicted"] = {
                "peak_bytes": predicted.peak_bytes,
                "safe_bytes": predicted.safe_bytes,
                "gap": self.gap,
            }
        data["free_at_peak"] = None
        if self.occupancy is not None:
            data["free_at_peak"] = {
                "free_bytes": self.occupancy.free_bytes,
                "largest_bytes": self.occupancy.largest_hole_bytes,
                "holes": len(self.occupancy.holes),
                "fragmentation": self.occupancy.fragmentation,
                "pinnings": [asdict(pinning) for pinning in self.pinnings],
            }
        return data


def _pinning_text(pinning: Pinning) -> str:
    others = pinning.buffers - 1
    beside = "" if others == 0 else f" and {others:,} beside it"
    splits = "splits" if others == 0 else "split"
    return f"{pinning.name}{beside} ({format_bytes(pinning.bytes)}) {splits} {format_bytes(pinning.hole_bytes)}"


def shape_text(dtype: str, shape: tuple[int, ...] | None) -> str:
    """Return the type of a tensor as text: "float32 64×112×112×64"."""
    if shape is None:
        return f"{dtype} ?"
    return f"{dtype} {'×'.join(map(str, shape))}" if shape else f"{dtype} scalar"
