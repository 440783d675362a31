"""Build the Rewrite of a schedule: which nodes are copied, which nodes read the copies, and the control edges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from lowtide.planning.problem import Instance, PlanningProblem
from lowtide.planning.rewrite.ancestors import Ancestors
from lowtide.planning.rewrite.concurrency import NONE, Concurrency, running_limits
from lowtide.planning.rewrite.control_edges import OrderEdges, enforce_order, has_cycle
from lowtide.planning.rewrite.fusion import FUSIBLE
from lowtide.planning.rewrite.in_place import InPlaceUpdates, find_in_place_updates
from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.planning.tuning import TUNING
from lowtide.program.graph import Graph
from lowtide.simulator.workload import CONSTANT, RETURN, Workload

# A copy is named after its original, so that it is attributed to the same layer; a barrier after the node it follows.
# The suffixes are part of stored plans.
COPY_SUFFIX, BARRIER_SUFFIX = "again", "barrier"
_FILTER_GRADIENTS = frozenset({"Conv2DBackpropFilter", "_MklNativeConv2DBackpropFilter", "_MklConv2DBackpropFilter"})
_FLOATS = frozenset({1, 2, 14, 19})
# XLA transposes the filter of these, as early as it can: (filter, gradient).
_TURNED = frozenset({"Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput"})
_FILTER, _GRADIENT = 1, 2
# The key of these may be delayed; the compiler must know their other inputs at compile time.
_RANDOM, _KEY = "StatelessRandom", 1

Waits = dict[str, list[str]]
"""The nodes that each node waits for, by name."""


class BuiltRewrite(NamedTuple):
    """A schedule as edits of a graph."""

    rewrite: Rewrite
    at_once: list[int]
    """How many instances of the schedule may run at once when each of them starts."""


def build_rewrite(
    work: Workload,
    problem: PlanningProblem,
    schedule: Sequence[Instance],
    tied: bool = False,
    concurrency: Concurrency = NONE,
) -> BuiltRewrite:
    """Return the edits that make a graph run as scheduled.

    Control edges enforce the order in an executor. XLA ignores them, so with `tied` only the copies are delayed: what
    they read is made to depend on what ran last before them.
    """
    builder = _RewriteBuilder(work, problem, tied)
    for instance in schedule:
        builder.run(instance)
    builder.finish()
    names = [name for each in builder.schedules for name in each]
    waits_for = builder.waits_for()
    at_once = running_limits(problem, schedule, concurrency, Ancestors(names, waits_for))
    # A compiler keeps the buffer of each variable.
    held = (OrderEdges[str](), InPlaceUpdates())
    if not tied:
        held = _order_and_updates(work, builder, waits_for, dict(zip(names, at_once, strict=True)), concurrency)
    order, in_place = held
    rewrite = Rewrite(
        copies=tuple(builder.copies.items()),
        inputs=tuple(builder.inputs),
        barriers=tuple(order.barriers),
        controls=tuple(dict.fromkeys([*order.edges, *in_place.controls])),
        ties=tuple(builder.ties),
        in_place=tuple(in_place.assignments),
    )
    return BuiltRewrite(rewrite, at_once)


def _order_and_updates(
    work: Workload, builder: _RewriteBuilder, waits_for: Waits, at_once: Mapping[str, int], concurrency: Concurrency
) -> tuple[OrderEdges[str], InPlaceUpdates]:
    """Return what enforces the order, and what keeps variables in place unless that would cause a cycle."""
    twins = builder.twins()
    order = _enforce_with_twins(builder, waits_for, at_once, twins)
    in_place = find_in_place_updates(work, builder.schedules, builder.copies, concurrency.largest_in_place)
    if _has_cycle(waits_for, [*order.edges, *in_place.controls], twins):
        return order, InPlaceUpdates()
    return order, in_place


def _enforce_with_twins(
    builder: _RewriteBuilder, waits_for: Waits, at_once: Mapping[str, int], twins: dict[str, str]
) -> OrderEdges[str]:
    """Return what enforces the order, given twins.

    oneDNN fuses a bias gradient with the filter gradient of the same layer, if both wait for the same nodes. The filter
    gradient represents both in the order; otherwise the fused node would wait for itself.
    """
    order = _enforce_each_device(builder, waits_for, at_once, twins.keys())
    waits: dict[str, list[str]] = {}
    for before, after in order.edges:
        waits.setdefault(after, []).append(before)
    order.edges.extend((before, twin) for twin, beside in twins.items() for before in waits.get(beside, ()))
    if not _has_cycle(waits_for, order.edges, twins):
        return order
    # Their results are needed at different times: they stay two nodes.
    apart = _enforce_each_device(builder, waits_for, at_once)
    place = {name: position for schedule in builder.schedules for position, name in enumerate(schedule)}
    known = set(apart.edges)
    for pair in twins.items():
        first, second = sorted(pair, key=place.__getitem__)
        if (first, second) not in known:
            apart.edges.append((first, second))
    return apart


def _enforce_each_device(
    builder: _RewriteBuilder, waits_for: Waits, at_once: Mapping[str, int], without: Collection[str] = ()
) -> OrderEdges[str]:
    """Return what enforces the order of each device; all are parts of one order, so there is no cycle."""
    whole = OrderEdges[str]()
    for schedule in builder.schedules:
        kept = [name for name in schedule if name not in without]
        among = _limits_without(schedule, at_once, without)
        part = enforce_order(kept, waits_for, among, lambda name: builder.free_name(f"{name}/{BARRIER_SUFFIX}"))
        whole.edges.extend(part.edges)
        whole.barriers.extend(part.barriers)
    return whole


def _limits_without(schedule: Sequence[str], at_once: Mapping[str, int], without: Collection[str]) -> dict[str, int]:
    """Return the limits of a schedule if some nodes are not counted."""
    missing = list(accumulate((name in without for name in schedule), initial=0))
    return {
        name: at_once[name] - (missing[place + 1] - missing[max(place - at_once[name] + 1, 0)])
        for place, name in enumerate(schedule)
        if name not in without
    }


def _has_cycle(waits_for: Waits, edges: list[tuple[str, str]], one: dict[str, str]) -> bool:
    """Whether a graph would have a cycle if nodes were fused with others."""
    every = [(source, name) for name, sources in waits_for.items() for source in sources]
    return has_cycle((one.get(source, source), one.get(name, name)) for source, name in (*every, *edges))


class _RewriteBuilder:
    """Follows a schedule and collects the edits."""

    def __init__(self, work: Workload, problem: PlanningProblem, tied: bool) -> None:
        self.work = work
        self.graph: Graph = work.graph
        self.problem = problem
        self.tied = tied
        self.values_of = _values_behind(work, problem)
        self.producer = self.graph.producers()
        self.taken = set(self.graph.names)
        self.copies: dict[str, str] = {}
        self.inputs: list[tuple[str, int, str]] = []
        self.schedules: list[list[str]] = [[] for _ in problem.parts]
        """The nodes of each device, in order."""
        self.part = 0
        self.ties: list[tuple[str, str, str]] = []
        self.renewed: dict[int, str] = {}
        """Tensors that were rematerialized, and the reference to the new one."""
        self.remade: set[int] = set()
        self.versions: dict[int, frozenset[int]] = {}
        """For fused tensors that were rematerialized: which of the values behind them had been rematerialized then."""
        self.trigger: int | None = None
        self.held_back: dict[tuple[int, int], str] = {}
        self.chains: dict[tuple[int, int | None, frozenset[int]], str | None] = {}

    def run(self, instance: Instance) -> None:
        task = max(instance, ~instance)
        node = self.problem.nodes[task]
        if (part := self.problem.part_of(task)) != self.part:
            # What one device rematerializes is not read by the others.
            self.finish()
            self.remade.clear()
            self.part = part
        schedule = self.schedules[part]
        if instance >= 0:
            name = self.graph.names[node]
            schedule.append(name)
            self._redirect(node, name)
            if self.tied and self.graph.ops[node] in _TURNED:
                self._delay_filter(node, name)
            self._remember_trigger(node)
            return
        name = self._copy(node)
        schedule.append(name)
        if self.tied:
            self._delay(node, name)
        else:
            self._redirect(node, name)
        for tensor in self.graph.outputs_of(node):
            self.renewed[tensor] = _reference(name, tensor - self.graph.first_output[node])
        self.remade.update(self.problem.makes[~instance])

    def finish(self) -> None:
        """Let the results read what was made last."""
        for node, role in enumerate(self.work.role):
            if role == RETURN:
                self._redirect(node, self.graph.names[node])

    def twins(self) -> dict[str, str]:
        """Return bias gradients, each with the filter gradient that reads the same tensor."""
        graph = self.graph
        schedule = {name for each in self.schedules for name in each}
        changed = {(name, position) for name, position, _ in self.inputs}
        filters = {
            graph.inputs_of(node)[2]: graph.names[node]
            for node, op in enumerate(graph.ops)
            if op in _FILTER_GRADIENTS and graph.names[node] in schedule and (graph.names[node], 2) not in changed
        }
        found = {}
        for node, op in enumerate(graph.ops):
            if op == "BiasAddGrad" and (graph.names[node], 0) not in changed:
                twin = filters.get(graph.inputs_of(node)[0])
                if twin is not None:
                    found[graph.names[node]] = twin
        return found

    def waits_for(self) -> Waits:
        """Return what each node waits for once the edits are made."""
        graph, names = self.graph, self.graph.names
        inputs = {
            names[node]: [names[self.producer[tensor]] for tensor in graph.inputs_of(node)]
            for node in range(len(graph))
        }
        inputs |= {copy: list(inputs[original]) for copy, original in self.copies.items()}
        for name, position, reference in self.inputs:
            inputs[name][position] = reference.partition(":")[0]
        for node, name in enumerate(names):
            inputs[name] += [names[source] for source in graph.controls_of(node)]
        return inputs

    def _copy(self, node: int) -> str:
        original = self.graph.names[node]
        name = self.free_name(f"{original}/{COPY_SUFFIX}")
        self.copies[name] = original
        return name

    def free_name(self, name: str) -> str:
        """Return an unused name like this one."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _redirect(self, node: int, name: str) -> None:
        """Let a node, or its copy, read rematerialized tensors where there are any."""
        for position, tensor in enumerate(self.graph.inputs_of(node)):
            if self._renewed_values(tensor):
                self.inputs.append((name, position, self._rematerialized(tensor)))

    def _renewed_values(self, tensor: int) -> frozenset[int]:
        """Return the values behind a tensor that were rematerialized."""
        return frozenset(self.values_of.get(tensor, ())) & self.remade

    def _rematerialized(self, tensor: int) -> str:
        """Return the reference to a rematerialized tensor: of a copied node, a view of one, or fused from one."""
        version = self._renewed_values(tensor) if tensor in self.problem.through else None
        if tensor not in self.renewed or self.versions.get(tensor) != version:
            node = self.producer[tensor]
            name = self._copy(node)
            for output in self.graph.outputs_of(node):
                self.renewed[output] = _reference(name, output - self.graph.first_output[node])
                if version is not None:
                    self.versions[output] = version
            self._redirect(node, name)
        return self.renewed[tensor]

    def _remember_trigger(self, node: int) -> None:
        for tensor in self.graph.outputs_of(node):
            if self.graph.dtypes[tensor] in _FLOATS and self.work.reader_counts[tensor]:
                self.trigger = tensor
                return

    def _delay(self, node: int, name: str) -> bool:
        """Let a copy read rematerialized tensors, and delay it until its trigger exists.

        An input delays it. One input is enough: the smallest, because a large one would be copied. Fused nodes are
        delayed through all large inputs, which costs nothing there, so that the compiler does not merge them with the
        original.
        """
        held = False
        loose: list[tuple[int, int]] = []
        for position, tensor in enumerate(self.graph.inputs_of(node)):
            reference = self._held(tensor)
            if reference is not None:
                self.inputs.append((name, position, reference))
                held = True
            elif self._can_delay(node, position, tensor):
                loose.append((position, tensor))
        sizes = self.work.sizes
        large = [each for each in loose if each[1] in self.values_of] if self.graph.ops[node] in FUSIBLE else []
        if not held and not large:
            large = sorted(loose, key=lambda each: sizes[each[1]])[:1]
        for position, tensor in large:
            assert self.trigger is not None
            self.inputs.append((name, position, self._tie(tensor, self.trigger)))
        return held or bool(large)

    def _delay_filter(self, node: int, name: str) -> None:
        """Delay a filter until the gradient exists; its transposed copy would be in memory for most of the step."""
        turned, gradient = (self.graph.inputs_of(node)[position] for position in (_FILTER, _GRADIENT))
        if self.work.sizes[turned] >= TUNING.held_filter_bytes and self.graph.dtypes[gradient] in _FLOATS:
            self.inputs.append((name, _FILTER, self._tie(turned, gradient)))

    def _held(self, tensor: int) -> str | None:
        """Return what a copy reads instead of a tensor, if that delays it."""
        renewed = self._renewed_values(tensor)
        if tensor not in self.problem.through:
            return self._rematerialized(tensor) if renewed else None
        key = (tensor, self.trigger, renewed)
        if key not in self.chains:
            node = self.producer[tensor]
            name = self._copy(node)
            held = self._delay(node, name)
            self.chains[key] = _reference(name, tensor - self.graph.first_output[node]) if held else None
        return self.chains[key]

    def _can_delay(self, node: int, position: int, tensor: int) -> bool:
        # A constant may have to be one at compile time: an axis, a shape, the step of a range.
        if self.trigger is None or self.work.role[self.producer[tensor]] == CONSTANT:
            return False
        if self.graph.ops[node].startswith(_RANDOM):
            return position == _KEY
        return self.graph.dtypes[tensor] in _FLOATS

    def _tie(self, tensor: int, trigger: int) -> str:
        key = (tensor, trigger)
        if key not in self.held_back:
            tie = f"{self.graph.names[self.producer[tensor]]}/{COPY_SUFFIX}_tied_{len(self.ties)}"
            self.held_back[key] = tie
            self.ties.append((tie, self._name(tensor), self._name(trigger)))
        return self.held_back[key]

    def _name(self, tensor: int) -> str:
        node = self.producer[tensor]
        return _reference(self.graph.names[node], tensor - self.graph.first_output[node])


def _reference(name: str, port: int) -> str:
    return f"{name}:{port}" if port else name


def _values_behind(work: Workload, problem: PlanningProblem) -> dict[int, tuple[int, ...]]:
    """Return the values behind each large tensor: its own, the one it is a view of, or those it is fused from."""
    values_of = {tensor: (value,) for value, tensor in enumerate(problem.tensors)} | problem.through
    # A view may come before its source in the file, so views are followed until nothing new is found.
    views = [(output, source) for takes in work.buffer_reuses for output, source, always in takes if always]
    while views:
        found = [(output, source) for output, source in views if source in values_of]
        if not found:
            break
        for output, source in found:
            values_of.setdefault(output, values_of[source])
        views = [view for view in views if view[0] not in values_of]
    return values_of
