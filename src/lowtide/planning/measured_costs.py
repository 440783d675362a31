"""Costs of ops from a recorded step, which replace those of the cost model."""

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
# The prefix of node names in a function that calls the whole step.
_CALLED = re.compile(r"^(Stateful)?PartitionedCall(_\d+)?/")


@dataclass(frozen=True)
class MeasuredTimes:
    """The op times of a recorded step, and the name of their source for notes and errors."""

    tide: Tide
    times: OpTimes
    source: str

    def costs_of(self, work: Workload, step: Tide) -> list[float]:
        """Return the cost of each node: its measured time, or else the cost model's, scaled by the median ratio."""
        measured = self._find(work, step)
        ratio = _middle_ratio(work, measured)
        scale = self._batches(step)
        return [scale * measured.get(node, ratio * cost) for node, cost in enumerate(work.cost_us)]

    def notes(self, step: Tide) -> tuple[str, ...]:
        """Return the notes of a plan on where its costs come from."""
        measured = f"times measured in {self.source}"
        if self._batches(step) == 1.0:
            return (measured,)
        return (f"{measured} with batch {self.tide.batch_size}, taken in proportion for batch {step.batch_size}",)

    def _batches(self, step: Tide) -> float:
        return (step.batch_size or 1) / self.tide.batch_size if step.batch_size and self.tide.batch_size else 1.0

    def _find(self, work: Workload, step: Tide) -> dict[int, float]:
        """Return the measured microseconds of nodes; raise an error for a recording of another program."""
        # Nodes that only pass a buffer on are not timed.
        nodes = {work.graph.names[node]: node for node, cost in enumerate(work.cost_us) if cost > 0}
        known = dict(zip(self.times.node, self.times.duration_us.tolist(), strict=True))
        whole = sum(cost for cost, role in zip(work.cost_us, work.role, strict=True) if role == COMPUTE)
        covered = 0.0
        for names in (str, _inside):
            durations = {names(name): took for name, took in known.items()}
            timed = {names(name): node for name, node in nodes.items()}
            found = {timed[name]: durations[source] for name, source in match_nodes(durations, timed).items()}
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
    """Return the times in a recorded tide, or in its file."""
    if recorded is None or isinstance(recorded, MeasuredTimes):
        return recorded
    if isinstance(recorded, Tide):
        tide, given, source = recorded, recorded.target, f"a recording of {recorded.target}"
    else:
        tide, given, source = Tide.load(recorded), fspath(recorded), fspath(recorded)
    if tide.times is None:
        raise LowtideError(
            "the tide has no times of ops: it was predicted, or recorded on a GPU or by an earlier version",
            given=given,
            cure="record the step: lowtide run --save step.tide, or lt.measure",
        )
    return MeasuredTimes(tide, tide.times, source)


def _inside(name: str) -> str:
    """Return a node name without the prefix of the function that calls the step."""
    return _CALLED.sub("", name)


def _middle_ratio(work: Workload, measured: Mapping[int, float]) -> float:
    """Return the median ratio of measured and modelled time, weighted by modelled time.

    Neither the many small ops, which only take the time of their call, nor a single outlier affect it.
    """
    ratios = sorted((took / work.cost_us[node], work.cost_us[node]) for node, took in measured.items())
    rest = sum(weight for _, weight in ratios) / 2
    for ratio, weight in ratios:
        rest -= weight
        if rest <= 0:
            return ratio
    return 1.0
