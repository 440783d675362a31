"""The planning context of a step: its flat graph, its planning problem, and the simulation of its rewrites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.planning.actions import actions_of
from lowtide.planning.measured_costs import ESTIMATED, MeasuredTimes
from lowtide.planning.order.order import lowest_order
from lowtide.planning.plan import Plan
from lowtide.planning.plan_search import Attempt, lazy_frontier, with_room
from lowtide.planning.problem import PlanningProblem, build_problem
from lowtide.planning.remat.remat_search import RematSolution
from lowtide.planning.rewrite.build_rewrite import build_rewrite
from lowtide.planning.rewrite.concurrency import Concurrency, ordering_cost_us
from lowtide.planning.rewrite.fusion import fused_nodes
from lowtide.planning.tuning import TUNING
from lowtide.program.kernels import with_kernels
from lowtide.progress import ProgressCallback
from lowtide.simulator.workload import Workload, build_workload
from lowtide.tf.plan.apply_rewrite import Redefined, apply, fingerprint, planned_callable, register
from lowtide.tf.plan.flatten import FlatFunction, flat_of, flatten, is_stateful
from lowtide.tf.plan.momentum_kernels import with_momentum_kernels
from lowtide.tf.trace.convert import graph_from_def
from lowtide.tf.trace.layer_origins import make_layer_finder
from lowtide.tf.trace.resolve_shapes import resolve_shapes
from lowtide.tf.trace.simulated_step import SimulatedStep
from lowtide.tf.trace.step import Step
from lowtide.tf.trace.xla.step import CompiledStep
from lowtide.tide.tide import Tide

# Ops that call a function are not stateful by definition, but the function may be.
_CALLS = frozenset("PartitionedCall If StatelessIf While StatelessWhile Case StatelessCase RemoteCall MapDefun".split())
# Loops and branches as single ops, which only an executor can run.
_LOWERED = frozenset("Switch Merge Enter Exit NextIteration".split())


def flat_step(step: Step) -> FlatFunction:
    """Return the graph to edit: the result of Grappler, so that what it fused and folded keeps the same bits.

    Momentum updates become one node each. A compiled step is not optimized by Grappler, and loops are single nodes only
    in the graph as traced.
    """
    if isinstance(step, SimulatedStep):
        optimized = step.program.optimized_def
        if optimized is not None and not any(op in _LOWERED for op in step.program.graph.ops):
            return with_momentum_kernels(flat_of(step.concrete, optimized), step.program.graph_at(None))
    return flatten(step.concrete)


def _devices(graph_def: Any) -> list[str]:
    """Return the device of each node; a node without one is assigned to the most frequent device."""
    kinds = {name: tf.DeviceSpec.from_string(name) for name in {node.device for node in graph_def.node} if name}
    devices = {name: f"{kind.device_type}:{kind.device_index or 0}" for name, kind in kinds.items()}
    found = [devices.get(node.device) for node in graph_def.node]
    named = Counter(device for device in found if device is not None)
    usual = named.most_common(1)[0][0] if named else ""
    return [device or usual for device in found]


def build_step_problem(
    work: Workload, before: Tide, fused: frozenset[int] = frozenset(), devices: Sequence[str] | None = None
) -> PlanningProblem:
    """Build the planning problem of a step in its best order; `before` is the tide of the plain step."""
    smallest = max(int(before.peak_bytes * TUNING.value_share), TUNING.value_bytes)
    stateful = frozenset(op for op in set(work.graph.ops) if op in _CALLS or is_stateful(op))
    order = lowest_order(work)
    held = int(before.curve.bytes_in_use[0])
    return build_problem(work, order.nodes, stateful, smallest, held, fused, devices)


class PlanningContext:
    """A step to plan: a `RewriteSimulator` that knows TensorFlow."""

    def __init__(
        self,
        step: Any,
        before: Tide,
        progress: ProgressCallback,
        label: str | None = None,
        times: MeasuredTimes | None = None,
    ) -> None:
        self.step = step
        self.before = before
        self.progress = progress
        self.label = label
        self.concrete = step.concrete
        self.compiled = isinstance(step, CompiledStep)
        self.flat = flat_step(step)
        graph = graph_from_def(self.flat.graph_def)
        if isinstance(step, SimulatedStep):
            for program in (step.program, *step.program.other_devices):
                graph = with_kernels(graph, program.graph)
        shapes = {index: tuple(shape) for index, shape in enumerate(step.argument_shapes) if shape is not None}
        self.work: Workload = build_workload(resolve_shapes(graph, self.flat.graph_def, shapes), fold=False)
        self.notes = self._use_times(times)
        fused = fused_nodes(self.work, step.written_nodes()) if self.compiled else frozenset()
        devices = None if self.compiled else _devices(self.flat.graph_def)
        self.problem = build_step_problem(self.work, before, fused, devices)
        if self.compiled:
            # XLA's own kernels allocate no workspace.
            self.problem.workspace = [0] * len(self.problem)

    def _use_times(self, times: MeasuredTimes | None) -> tuple[str, ...]:
        """Use measured times as costs; return notes on where costs come from."""
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
        """The fingerprint of the graph as traced."""
        return fingerprint(self.flat, self.step.argument_shapes)

    def simulate(self, solution: RematSolution, concurrency: Concurrency, budget_bytes: int | None = None) -> Attempt:
        """Rewrite the step as a solution says, trace it again and simulate it."""
        rewrite, at_once = build_rewrite(self.work, self.problem, solution.schedule, self.compiled, concurrency)
        redefined = Redefined(self.concrete, apply(self.flat, rewrite))
        if self.compiled:
            # The runtime is given a copy of its own of any other function.
            register(redefined)
        step = self.step.with_body(redefined, self.progress, budget_bytes)
        after = step.tide(self.step.batch_size, self.progress, self.label)
        extra_us = solution.profile.extra_us
        if self.compiled:
            return Attempt(solution, rewrite, after, step.memory.temp_bytes, extra_us, 0.0, redefined)
        used_bytes = after.safe_bytes - self.problem.base_bytes
        extra_us += ordering_cost_us(self.problem, solution.schedule, at_once, rewrite.in_place)
        spread = max(each.peak_spread for each in (step, *step.other_devices))
        return Attempt(solution, rewrite, after, used_bytes, extra_us, spread, redefined)

    def room(self, budget_bytes: int) -> int:
        """Return what a budget leaves on top of what is in use throughout."""
        room: int = (
            self.step.temporary_budget(budget_bytes) if self.compiled else budget_bytes - self.problem.base_bytes
        )
        return room

    def plain_used_bytes(self) -> int:
        """Return the temporary bytes of a compiled step as it is."""
        used: int = self.step.memory.temp_bytes
        return used

    def plan_of(self, attempt: Attempt, budget_bytes: int) -> Plan:
        """Return an attempt as a plan."""
        redefined, compiled, after = attempt.step, self.compiled, attempt.after
        # What the step is certain to need, without the room beside it: the rest of the limit is for other memory.
        needed_bytes = after.safe_bytes
        slowdown = attempt.extra_us / max(self.problem.total_us, 1e-9)
        promised = after if compiled else with_room(after, budget_bytes)
        metadata = self.step.metadata
        layer = make_layer_finder(self.concrete, metadata.layers, metadata.kinds)
        return Plan(
            target=after.target,
            budget_bytes=budget_bytes,
            before=self.before,
            after=promised,
            slowdown=slowdown,
            actions=actions_of(self.work.graph, self.problem, attempt.solution.remats, attempt.rewrite, layer),
            frontier=lazy_frontier(self.problem, attempt, self.before.safe_bytes, promised.safe_bytes, slowdown),
            rewrite=attempt.rewrite,
            fingerprint=self.fingerprint,
            notes=self.notes,
            bind=lambda: planned_callable(redefined, compiled, needed_bytes),
        )
