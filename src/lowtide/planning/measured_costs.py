"""What ops cost, from a step that was recorded: measured times in the place of the model's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath

from lowtide.errors import LowtideError
from lowtide.planning.tuning import TUNING
from lowtide.simulator.workload import COMPUTE, Workload
from lowtide.tide.columns import OpTimes
from lowtide.tide.matching import match_nodes
from lowtide.tide.tide import Tide

ESTIMATED = "times estimated from FLOPs and bytes"
# What a function that calls the whole step puts before the names in it.
_CALLED = re.compile(r"^(Stateful)?PartitionedCall(_\d+)?/")


@dataclass(frozen=True)
class MeasuredTimes:
    """The times of a recorded step, and what notes and errors call their source."""

    tide: Tide
    times: OpTimes
    source: str

    def costs_of(self, work: Workload, step: Tide) -> list[float]:
        """What each node of a step costs: its own time where it was measured, else the model's in proportion."""
        measured = self._find(work, step)
        ratio = _middle_ratio(work, measured)
        scale = self._batches(step)
        return [scale * measured.get(node, ratio * cost) for node, cost in enumerate(work.cost_us)]

    def notes(self, step: Tide) -> tuple[str, ...]:
        """Where costs come from, for a plan to say."""
        measured = f"times measured in {self.source}"
        if self._batches(step) == 1.0:
            return (measured,)
        return (f"{measured} with batch {self.tide.batch_size}, taken in proportion for batch {step.batch_size}",)

    def _batches(self, step: Tide) -> float:
        return (step.batch_size or 1) / self.tide.batch_size if step.batch_size and self.tide.batch_size else 1.0

    def _find(self, work: Workload, step: Tide) -> dict[int, float]:
        """The measured microseconds of nodes; refuses a recording of another program."""
        # Nodes that hand a buffer on are not timed, and would not be found.
        nodes = {work.graph.names[node]: node for node, cost in enumerate(work.cost_us) if cost > 0}
        known = dict(zip(self.times.node, self.times.duration_us.tolist(), strict=True))
        whole = sum(cost for cost, role in zip(work.cost_us, work.role, strict=True) if role == COMPUTE)
        covered = 0.0
        for names in (str, _inside):
            found = _match({names(name): took for name, took in known.items()}, {names(n): i for n, i in nodes.items()})
            share = sum(work.cost_us[node] for node in found if work.role[node] == COMPUTE) / max(whole, 1e-9)
            if share >= TUNING.covered_share:
                return found
            covered = max(covered, share)
        raise LowtideError(
            f"the recording is of another program: it knows the times of {covered:.0%} of this step",
            given=f"{self.source}, a recording of {self.tide.target}, for {step.target}",
            cure="record this step: lowtide run --save step.tide, or lt.measure",
        )


Recorded = MeasuredTimes | Tide | str | PathLike[str]


def measured_times(recorded: Recorded | None) -> MeasuredTimes | None:
    """The times in a recorded tide, or in the file of one."""
    if recorded is None or isinstance(recorded, MeasuredTimes):
        return recorded
    is_tide = isinstance(recorded, Tide)
    tide = recorded if isinstance(recorded, Tide) else Tide.load(recorded)
    source = f"a recording of {tide.target}" if isinstance(recorded, Tide) else fspath(recorded)
    if tide.times is None:
        raise LowtideError(
            "the tide has no times of ops: it was predicted, or recorded on a GPU or by an earlier version",
            given=tide.target if is_tide else source,
            cure="record the step: lowtide run --save step.tide, or lt.measure",
        )
    return MeasuredTimes(tide, tide.times, source)


def _inside(name: str) -> str:
    """Whether a step is called from a function that draws its batch is all the same to its ops."""
    return _CALLED.sub("", name)


def _match(known: Mapping[str, float], nodes: Mapping[str, int]) -> dict[int, float]:
    return {nodes[name]: known[source] for name, source in match_nodes(known, nodes).items()}


def _middle_ratio(work: Workload, measured: Mapping[int, float]) -> float:
    """How much longer than the model says ops took: half of the modelled time took more, half less.

    The many small ops, which take nothing but the time to call them, do not count in it, nor does a single one that
    the model has quite wrong.
    """
    ratios = sorted((took / work.cost_us[node], work.cost_us[node]) for node, took in measured.items())
    rest = sum(weight for _, weight in ratios) / 2
    for ratio, weight in ratios:
        rest -= weight
        if rest <= 0:
            return ratio
    return 1.0
