"""What is shown of a tide, and the answers to the questions about it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from lowtide.oom.held_data import advise_on_data
from lowtide.run.graph_names import ARRAY, UNIDENTIFIED
from lowtide.tide.address_space import Occupancy, Pinning, occupancy_at, pinnings_at
from lowtide.tide.owner import Owner
from lowtide.tide.tide import METHODS, Tide
from lowtide.units import format_bytes, format_count
from lowtide.view.axis import axis_top

# Memory outside of the step is reported if it is at least this share of the peak.
_NOTABLE_OUTSIDE = 0.01
# What an op keeps, where its type says nothing to a reader.
_HELD_NAMES = {"MakeIterator": "an iterator over a dataset"}
# How many of the largest tensors at the peak of a script without steps are searched for data.
_ADVISED = 100
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
        predicted = 0 if self.predicted is None else self.predicted.peak_bytes + self.outside_bytes
        highest = max(self.tide.peak_bytes, predicted)
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
        if self.is_whole_script:
            return "recorded from TensorFlow's allocator while the script ran"
        return METHODS.get(self.tide.method, self.tide.method)

    @property
    def is_whole_script(self) -> bool:
        """Whether the tide is that of a script that completed no training step."""
        return self.tide.recording is not None and self.tide.recording.step is None

    @property
    def building_line(self) -> str | None:
        """The cost of building the graph, apart from executing it; None if unknown, as for some recordings."""
        building = self.tide.building
        parts = [
            f"{format_count(building.traced_nodes, 'node')} traced" if building.traced_nodes else None,
            f"{building.executed_nodes:,} executed" if building.executed_nodes else None,
            f"graph {format_bytes(building.graph_bytes)}" if building.graph_bytes else None,
            None if building.host_bytes is None else f"host memory {format_bytes(building.host_bytes)}",
        ]
        return " · ".join(part for part in parts if part is not None) or None

    @property
    def gap(self) -> float | None:
        """How far the predicted peak is above that of the step, as a share of it; None without a prediction.

        What is held outside of the step is not predicted, and does not count.
        """
        if self.predicted is None or self.tide.step_bytes <= 0:
            return None
        return self.predicted.peak_bytes / self.tide.step_bytes - 1

    @property
    def outside_bytes(self) -> int:
        """What is held outside of the step at the peak; 0 if it is not worth a word."""
        held = self.tide.peak_bytes - self.tide.step_bytes
        return held if held >= _NOTABLE_OUTSIDE * self.tide.peak_bytes else 0

    @property
    def outside_line(self) -> str | None:
        """How much of the peak is the step's; None if nothing notable is held outside of it."""
        if not self.outside_bytes:
            return None
        step = format_bytes(self.tide.step_bytes)
        return (
            f"the step itself takes {step} of it, and {format_bytes(self.outside_bytes)} are held outside of the step"
        )

    @property
    def outside_lines(self) -> list[str]:
        """What is held outside of the step, each with its bytes and the line that made it, the largest first."""
        return self._held_lines(self.tide.held_outside) if self.outside_bytes else []

    @property
    def held_lines(self) -> list[str]:
        """What a script without steps holds at its peak, the largest first."""
        return self._held_lines(self.tide.top(self.tide.alive_at_peak)) if self.is_whole_script else []

    @property
    def process_line(self) -> str | None:
        """The memory of the whole process; None if it is not known."""
        process = None if self.tide.recording is None else self.tide.recording.process
        if process is None:
            return None
        parts = []
        if process.resident_bytes is not None:
            parts.append(f"resident memory of {format_bytes(process.resident_bytes)} at its highest")
        if (process.allocator_bytes or 0) > self.tide.peak_bytes * (1 + _NOTABLE_OUTSIDE):
            peak = format_bytes(process.allocator_bytes or 0)
            parts.append(f"the allocator's own peak of {peak} was reached outside of what is shown here")
        return "; ".join(parts) or None

    @property
    def array_lines(self) -> list[str]:
        """The large NumPy arrays that the script held, the largest first."""
        process = None if self.tide.recording is None else self.tide.recording.process
        return [] if process is None else self._held_lines(process.arrays)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about data that is held as a whole."""
        recording = self.tide.recording
        if recording is None:
            return ()
        held = self.tide.top(_ADVISED) if self.is_whole_script else self.tide.held_outside
        arrays = () if recording.process is None else recording.process.arrays
        return advise_on_data(held, arrays, self.tide.peak_bytes)

    @property
    def gap_text(self) -> str | None:
        """How far the predicted peak is from this one, in words; None without a prediction."""
        if self.gap is None:
            return None
        peak = "the recorded peak" if self.tide.recording is not None else "this peak"
        peak = "what the step itself takes" if self.outside_bytes else peak
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
        if recording.step is None:
            return "recorded over the whole script, which completed no training step"
        line = f"recorded in step {recording.step:,}"
        if len(recording.steps) < 2:
            return line
        # The script may have run more steps than these.
        numbers, peaks = zip(*((step.step, step.peak_bytes) for step in recording.steps), strict=True)
        recorded = f"steps {min(numbers):,} to {max(numbers):,}"
        lowest, highest = format_bytes(min(peaks)), format_bytes(max(peaks))
        if lowest == highest:
            return f"{line}; {recorded} have the same peak"
        return f"{line}; the peaks of {recorded} are {lowest} to {highest}"

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

    def _held_lines(self, owners: Sequence[Owner]) -> list[str]:
        """Return one line for each of the largest owners, and one for the others."""
        least = _NOTABLE_OUTSIDE * sum(owner.bytes for owner in owners)
        alike = Counter(replace(owner, address=None, requested_bytes=None) for owner in owners)
        shown = [(owner, count) for owner, count in alike.items() if owner.bytes * count >= least]
        shown = sorted(shown, key=lambda each: -each[0].bytes * each[1])[: self.top]
        lines = [_held_text(owner, count) for owner, count in shown]
        rest = len(owners) - sum(count for _, count in shown)
        if rest:
            held = sum(owner.bytes for owner in owners) - sum(owner.bytes * count for owner, count in shown)
            lines.append(f"{format_bytes(held)} by {rest:,} {'other' if rest == 1 else 'others'}")
        return lines

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
        data["advice"] = list(self.advice)
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


def _held_text(owner: Owner, count: int = 1) -> str:
    """Return whose bytes some memory is: "256 MiB by global `data` of train.py, float32 67108864, at train.py:12"."""
    name = _HELD_NAMES.get(owner.op or "") or plain_name(owner) or "an unknown owner"
    says_op = owner.op in (None, "unknown", owner.name) or name.endswith(f" of {owner.op}")
    op = "" if says_op else f" ({owner.op})"
    shape = "" if owner.shape is None else f", {shape_text(owner.dtype or '', owner.shape)}"
    line = "" if owner.source is None else f", at {owner.source}"
    times = "" if count == 1 else f"{count:,} × "
    by = "" if name == UNIDENTIFIED else "by "
    return f"{times}{format_bytes(owner.bytes)} {by}{name}{op}{shape}{line}"


def plain_name(owner: Owner) -> str | None:
    """Return the name of an owner; the output of an eager op has none but its type, as in "AddV2:0"."""
    if owner.op and owner.name == f"{owner.op}:0":
        return f"a result of {owner.op}"
    return f"an {ARRAY}" if owner.name == ARRAY else owner.name


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
