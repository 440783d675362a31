"""The steps that are simulated: how many, in which processes, and which of them takes most memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lowtide.program.machine import current_machine
from lowtide.simulator import tuning
from lowtide.simulator.allocation_stream import AllocationStream
from lowtide.simulator.executor import execute, execute_hoarding
from lowtide.simulator.kernel_order import draw_kernel_orders
from lowtide.simulator.workload import Workload


class OneOrder(NamedTuple):
    """Steps of processes that built the graph in the same order, and the share of such processes."""

    streams: list[AllocationStream]
    share: float


@dataclass(frozen=True, slots=True)
class StepVariants:
    """Simulated steps of different processes."""

    usual: list[OneOrder]
    hoarding: AllocationStream | None = None
    """A step of a program with loops that frees memory as late as the rules of the executor permit."""

    def all_streams(self) -> list[AllocationStream]:
        """Return all steps."""
        streams = [stream for order in self.usual for stream in order.streams]
        return streams if self.hoarding is None else [*streams, self.hoarding]


def step_variants(work: Workload, branch: bool) -> StepVariants:
    """Simulate steps; `branch` is the branch that is taken where the condition depends on the data."""
    threads = current_machine().inter_op_threads
    first = execute(work, threads, 0, branch)
    # In a large program the random durations average out; a small one needs more draws, which cost little.
    steps = int((tuning.FEW_NODES / max(len(first.order), 1)) ** 2)
    if not has_loops(first):
        steps = tuning.WARM_UP_STEPS + min(max(steps, tuning.FEWEST_STEPS), tuning.MOST_STEPS)
        streams = [first, *(execute(work, threads, seed, branch) for seed in range(1, steps))]
        return StepVariants([OneOrder(streams, 1.0)])
    steps = min(max(steps, tuning.FEWEST_STEPS_IN_LOOPS), tuning.MOST_STEPS)
    orders = draw_kernel_orders(work, tuning.KERNEL_ORDERS)[: tuning.MOST_KERNEL_ORDERS]
    total = sum(times for _, times in orders)
    usual = []
    for variant, times in orders:
        count = max(round(steps * times / total), tuning.FEWEST_STEPS_IN_ONE_ORDER)
        streams = [execute(variant, threads, seed, branch) for seed in range(count)]
        usual.append(OneOrder(streams, times / total))
    return StepVariants(usual, execute_hoarding(work, branch))


def has_loops(stream: AllocationStream) -> bool:
    """Whether a node of the step ran more than once."""
    return len(stream.order) > len(set(stream.order))
