"""The ground that a plan is made on: the flat graph of a step, the problem it poses, and attempts at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.planning.measured_costs import ESTIMATED, MeasuredTimes
from lowtide.planning.order.order import lowest_order
from lowtide.planning.problem import Problem, build_problem, measure
from lowtide.planning.remat.remat_search import Answer
from lowtide.planning.rewrite.build_rewrite import realize
from lowtide.planning.rewrite.concurrency import NONE, Leeway, holding_us
from lowtide.planning.rewrite.fusion import fused_nodes
from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.program.kernels import with_kernels
from lowtide.progress import ProgressCallback
from lowtide.simulator.workload import Workload, build_workload
from lowtide.tf.plan.apply_rewrite import Redefined, apply, fingerprint, register
from lowtide.tf.plan.flatten import FlatFunction, flat_of, flatten, is_stateful
from lowtide.tf.plan.momentum_kernels import with_momentum_kernels
from lowtide.tf.trace.convert import graph_from_def
from lowtide.tf.trace.resolve_shapes import resolve_shapes
from lowtide.tf.trace.simulated_step import SimulatedStep
from lowtide.tf.trace.step import Step
from lowtide.tf.trace.xla.step import CompiledStep
from lowtide.tide.tide import Tide

# A value below this share of the peak is small: what it does is left alone.
SMALL_SHARE, SMALLEST_BYTES = 1 / 4000, 16 << 10
# The first guess at how much above the planner's own figure a sure limit lies: the allocator rounds chunks up. Each
# trace of a rewrite corrects it.
FIRST_MARGIN = 0.16
# Ops that run a function are no stateful ops by their definition, but their functions may do anything.
_CALLS = frozenset("PartitionedCall If StatelessIf While StatelessWhile Case StatelessCase RemoteCall MapDefun".split())


# Loops and branches as single steps, which only an executor understands.
_LOWERED = frozenset("Switch Merge Enter Exit NextIteration".split())


def flat_step(step: Step) -> FlatFunction:
    """The graph to edit: as Grappler left it, so that what it fused and folded stays so, bit for bit.

    Only updates with momentum become one node each. A compiled step has not seen Grappler, and loops are still whole
    only in the graph as it was traced.
    """
    if isinstance(step, SimulatedStep):
        optimized = step.program.optimized_def
        if optimized is not None and not any(op in _LOWERED for op in step.program.graph.ops):
            return with_momentum_kernels(flat_of(step.concrete, optimized), step.program.graph_at(None))
    return flatten(step.concrete)


def _devices(graph_def: Any) -> list[str]:
    """Where each node runs; what has no device before it is placed goes where most nodes are."""
    kinds = {name: tf.DeviceSpec.from_string(name) for name in {node.device for node in graph_def.node} if name}
    places = {name: f"{kind.device_type}:{kind.device_index or 0}" for name, kind in kinds.items()}
    found = [places.get(node.device) for node in graph_def.node]
    named = Counter(place for place in found if place is not None)
    usual = named.most_common(1)[0][0] if named else ""
    return [place or usual for place in found]


def pose(
    work: Workload, before: Tide, fused: frozenset[int] = frozenset(), devices: Sequence[str] | None = None
) -> Problem:
    """The problem of a step that takes so much as it is, in the best order."""
    smallest = max(int(before.peak_bytes * SMALL_SHARE), SMALLEST_BYTES)
    stateful = frozenset(op for op in set(work.graph.ops) if op in _CALLS or is_stateful(op))
    order = lowest_order(work)
    held = int(before.curve.bytes_in_use[0])
    return build_problem(work, order.nodes, stateful, smallest, held, fused, devices)


def first_aim(budget_bytes: int) -> int:
    """What to search for first, so that the sure limit of what is found is about the budget."""
    return int(budget_bytes / (1.0 + FIRST_MARGIN))


class Ground:
    """What a plan is made on: the flat graph of a step, and the problem that it poses."""

    def __init__(self, step: Any, before: Tide, times: MeasuredTimes | None = None) -> None:
        self.step = step
        self.before = before
        self.concrete = step.concrete
        self.compiled = isinstance(step, CompiledStep)
        self.flat = flat_step(step)
        graph = graph_from_def(self.flat.graph_def)
        if isinstance(step, SimulatedStep):
            for program in (step.program, *step.program.other_devices):
                graph = with_kernels(graph, program.graph)
        shapes = {index: tuple(shape) for index, shape in enumerate(step.argument_shapes) if shape is not None}
        self.work: Workload = build_workload(resolve_shapes(graph, self.flat.graph_def, shapes), fold=False)
        self.notes = self._take_times(times)
        fused = fused_nodes(self.work, step.written_nodes()) if self.compiled else frozenset()
        devices = None if self.compiled else _devices(self.flat.graph_def)
        self.problem = pose(self.work, before, fused, devices)
        if self.compiled:
            # XLA has kernels of its own, which ask the allocator for nothing.
            self.problem.workspace = [0] * len(self.problem)

    def _take_times(self, times: MeasuredTimes | None) -> tuple[str, ...]:
        """Let ops cost what was measured; returns where costs come from."""
        if times is None:
            return (ESTIMATED,)
        if self.compiled:
            raise LowtideError(
                "XLA makes one op of many, so their times cannot be measured one by one",
                given=f"{self.before.target}, with times {times.source}",
                cure="plan it without a recording",
            )
        self.work.cost_us = times.costs_of(self.work, self.before)
        return times.notes(self.before)

    @cached_property
    def fingerprint(self) -> str:
        """Of the graph as it was traced."""
        return fingerprint(self.flat, self.step.argument_shapes)

    def attempt(
        self,
        answer: Answer,
        tell: ProgressCallback,
        label: str | None,
        budget_bytes: int | None = None,
        leeway: Leeway = NONE,
    ) -> Attempt:
        """Rewrite the step as an answer says, and look at it as at any other."""
        rewrite, at_once = realize(self.work, self.problem, answer.course, self.compiled, leeway)
        redefined = Redefined(self.concrete, apply(self.flat, rewrite))
        register(redefined)
        step = self.step.with_body(redefined, tell, budget_bytes)
        after = step.tide(self.step.batch_size, tell, label)
        used = step.memory.temp_bytes if self.compiled else after.safe_bytes - self.problem.base_bytes
        held_us = 0.0 if self.compiled else holding_us(self.problem, answer.course, at_once, rewrite.in_place)
        spread = 0.0 if self.compiled else max(each.peak_spread for each in (step, *step.other_devices))
        return Attempt(answer, rewrite, redefined, after, used, answer.flood.extra_us + held_us, spread)

    def room(self, budget_bytes: int) -> int:
        """What a budget leaves for what comes on top of what is there anyway."""
        return self.step.temporary_budget(budget_bytes) if self.compiled else budget_bytes - self.problem.base_bytes

    def first_aim(self, budget_bytes: int, room: int) -> int:
        """What to search for first; of a compiled step it is known what it takes as it is."""
        if not self.compiled:
            return first_aim(budget_bytes)
        plain = measure(self.problem, range(len(self.problem))).peak_bytes
        return self.next_aim(plain, self.step.memory.temp_bytes, room)

    def next_aim(self, peak_bytes: int, used_bytes: int, room: int) -> int:
        """What to aim at to take all the room: what is planned and used stand in about the same proportion next time.

        Or they lie as far apart, where XLA keeps what the planner does not see, such as filters in another layout.
        """
        planned = peak_bytes - self.problem.base_bytes
        aim = planned * room / max(used_bytes, 1)
        if self.compiled:
            aim = max(min(aim, planned + room - used_bytes), 0)
        return self.problem.base_bytes + int(aim * 0.98)


@dataclass
class Attempt:
    """A step as rewritten, and its tide."""

    answer: Answer
    rewrite: Rewrite
    redefined: Redefined
    after: Tide
    used_bytes: int
    """What it takes on top of what is there anyway."""
    extra_us: float
    """How much longer than the plain step it takes."""
    spread: float
    """How far apart its peaks are, as a share of the middle one."""
