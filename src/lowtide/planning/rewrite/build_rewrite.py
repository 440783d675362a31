"""From a course to a Rewrite: which nodes get a copy, who reads it, and who waits for whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from lowtide.planning.problem import Instance, Problem
from lowtide.planning.rewrite.ancestors import Past
from lowtide.planning.rewrite.concurrency import NONE, Leeway, instances_at_once
from lowtide.planning.rewrite.control_edges import Holding, has_circle, hold_in_order
from lowtide.planning.rewrite.fusion import FUSIBLE
from lowtide.planning.rewrite.in_place import Staying, stay_in_place
from lowtide.planning.rewrite.rewrite import Rewrite
from lowtide.program.graph import Graph
from lowtide.simulator.workload import CONSTANT, RETURN, Workload

# A copy is named after its original, so that it is found to be of the same layer; a joint after what it comes behind.
AGAIN, JOINT = "again", "joint"
_FILTER_GRADIENTS = frozenset({"Conv2DBackpropFilter", "_MklNativeConv2DBackpropFilter", "_MklConv2DBackpropFilter"})
_FLOATS = frozenset({1, 2, 14, 19})
# XLA turns the filter of these round, which it does at once if nothing holds it back: (filter, gradient).
_TURNED = frozenset({"Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput"})
_FILTER, _GRADIENT = 1, 2
_WORTH_HOLDING = 64 << 10
# The key of these may be held back; what else they read the compiler has to know beforehand.
_RANDOM, _KEY = "StatelessRandom", 1

Waits = dict[str, list[str]]
"""By name, the nodes that each node waits for."""


class Realized(NamedTuple):
    """A course as edits of a graph."""

    rewrite: Rewrite
    at_once: list[int]
    """How many of the course may be under way when each of it runs."""


def realize(
    work: Workload, problem: Problem, course: Sequence[Instance], tied: bool = False, leeway: Leeway = NONE
) -> Realized:
    """The edits that make a graph run as a course says.

    An executor is held to the order by control edges. Where these do not hold, under XLA, only the copies are held
    back: `tied`, what they read is made to depend on what ran last before them.
    """
    writer = _Writer(work, problem, tied)
    for instance in course:
        writer.run(instance)
    writer.finish()
    names = [name for each in writer.courses for name in each]
    waits_for = writer.waits_for()
    at_once = instances_at_once(problem, course, leeway, Past(names, waits_for))
    # A compiler gives each variable the buffer that it had.
    held = (Holding[str](), Staying())
    if not tied:
        held = _settle(work, writer, waits_for, dict(zip(names, at_once, strict=True)), leeway)
    order, staying = held
    rewrite = Rewrite(
        copies=tuple(writer.copies.items()),
        inputs=tuple(writer.inputs),
        joints=tuple(order.joints),
        controls=tuple(dict.fromkeys([*order.edges, *staying.controls])),
        ties=tuple(writer.ties),
        in_place=tuple(staying.assignments),
    )
    return Realized(rewrite, at_once)


def _settle(
    work: Workload, writer: _Writer, waits_for: Waits, at_once: Mapping[str, int], leeway: Leeway
) -> tuple[Holding[str], Staying]:
    """What holds the order, and what keeps variables in place, if both can be had."""
    twins = writer.twins()
    order = _hold(writer, waits_for, at_once, twins)
    staying = stay_in_place(work, writer.courses, writer.copies, leeway.largest_in_place)
    if _has_circle(waits_for, [*order.edges, *staying.controls], twins):
        return order, Staying()
    return order, staying


def _hold(writer: _Writer, waits_for: Waits, at_once: Mapping[str, int], twins: dict[str, str]) -> Holding[str]:
    """What holds the order.

    oneDNN computes a bias gradient together with the filter gradient beside it, as one node, if both wait for the same
    nodes. The filter gradient stands for both in the order, or the node that they become would wait for itself.
    """
    order = _order_of_each(writer, waits_for, at_once, twins.keys())
    waits: dict[str, list[str]] = {}
    for before, after in order.edges:
        waits.setdefault(after, []).append(before)
    order.edges.extend((before, twin) for twin, beside in twins.items() for before in waits.get(beside, ()))
    if not _has_circle(waits_for, order.edges, twins):
        return order
    # Their results are needed too far apart: they stay two nodes.
    apart = _order_of_each(writer, waits_for, at_once)
    place = {name: position for course in writer.courses for position, name in enumerate(course)}
    known = set(apart.edges)
    for pair in twins.items():
        first, second = sorted(pair, key=place.__getitem__)
        if (first, second) not in known:
            apart.edges.append((first, second))
    return apart


def _order_of_each(
    writer: _Writer, waits_for: Waits, at_once: Mapping[str, int], without: Collection[str] = ()
) -> Holding[str]:
    """What holds the order of each device. All are parts of one order, so they never wait for each other."""
    whole = Holding[str]()
    for course in writer.courses:
        kept = [name for name in course if name not in without]
        among = _among(course, at_once, without)
        part = hold_in_order(kept, waits_for, among, lambda name: writer.free_name(f"{name}/{JOINT}"))
        whole.edges.extend(part.edges)
        whole.joints.extend(part.joints)
    return whole


def _among(course: Sequence[str], at_once: Mapping[str, int], without: Collection[str]) -> dict[str, int]:
    """How many may be under way at once if some are not counted."""
    missing = list(accumulate((name in without for name in course), initial=0))
    return {
        name: at_once[name] - (missing[place + 1] - missing[max(place - at_once[name] + 1, 0)])
        for place, name in enumerate(course)
        if name not in without
    }


def _has_circle(waits_for: Waits, edges: list[tuple[str, str]], one: dict[str, str]) -> bool:
    """Whether a graph would wait for itself if nodes became `one` with others."""
    every = [(source, name) for name, sources in waits_for.items() for source in sources]
    return has_circle((one.get(source, source), one.get(name, name)) for source, name in (*every, *edges))


class _Writer:
    """Follows a course and notes what has to change."""

    def __init__(self, work: Workload, problem: Problem, tied: bool) -> None:
        self.work = work
        self.graph: Graph = work.graph
        self.problem = problem
        self.tied = tied
        self.values_of = _values(work, problem)
        self.producer = self.graph.producers()
        self.taken = set(self.graph.names)
        self.copies: dict[str, str] = {}
        self.inputs: list[tuple[str, int, str]] = []
        self.courses: list[list[str]] = [[] for _ in problem.parts]
        """What runs on each device, in order."""
        self.part = 0
        self.ties: list[tuple[str, str, str]] = []
        self.renewed: dict[int, str] = {}
        """Tensors that exist a second time, and how they are called then."""
        self.remade: set[int] = set()
        self.versions: dict[int, frozenset[int]] = {}
        """Of what is computed on the fly a second time: which of the values behind it were made a second time then."""
        self.trigger: int | None = None
        self.held_back: dict[tuple[int, int], str] = {}
        self.chains: dict[tuple[int, int | None, frozenset[int]], str | None] = {}

    def run(self, instance: Instance) -> None:
        task = max(instance, ~instance)
        node = self.problem.nodes[task]
        if (part := self.problem.part_of(task)) != self.part:
            # What one device computes again is not for the others.
            self.finish()
            self.remade.clear()
            self.part = part
        course = self.courses[part]
        if instance >= 0:
            name = self.graph.names[node]
            course.append(name)
            self._redirect(node, name)
            if self.tied and self.graph.ops[node] in _TURNED:
                self._turn_late(node, name)
            self._remember_trigger(node)
            return
        name = self._copy(node)
        course.append(name)
        if self.tied:
            self._hold_back(node, name)
        else:
            self._redirect(node, name)
        for tensor in self.graph.outputs_of(node):
            self.renewed[tensor] = _reference(name, tensor - self.graph.first_output[node])
        self.remade.update(self.problem.makes[~instance])

    def finish(self) -> None:
        """Results are what was made last."""
        for node, role in enumerate(self.work.role):
            if role == RETURN:
                self._redirect(node, self.graph.names[node])

    def twins(self) -> dict[str, str]:
        """Bias gradients, and the filter gradient that reads the same."""
        graph = self.graph
        course = {name for each in self.courses for name in each}
        changed = {(name, position) for name, position, _ in self.inputs}
        filters = {
            graph.inputs_of(node)[2]: graph.names[node]
            for node, op in enumerate(graph.ops)
            if op in _FILTER_GRADIENTS and graph.names[node] in course and (graph.names[node], 2) not in changed
        }
        found = {}
        for node, op in enumerate(graph.ops):
            if op == "BiasAddGrad" and (graph.names[node], 0) not in changed:
                twin = filters.get(graph.inputs_of(node)[0])
                if twin is not None:
                    found[graph.names[node]] = twin
        return found

    def waits_for(self) -> Waits:
        """What each node waits for once the edits are made."""
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
        name = self.free_name(f"{original}/{AGAIN}")
        self.copies[name] = original
        return name

    def free_name(self, name: str) -> str:
        """A name like this that nobody has."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _redirect(self, node: int, name: str) -> None:
        """Let a node, or its copy, read what exists a second time."""
        for position, tensor in enumerate(self.graph.inputs_of(node)):
            if self._renewed_values(tensor):
                self.inputs.append((name, position, self._again(tensor)))

    def _renewed_values(self, tensor: int) -> frozenset[int]:
        """The values behind a tensor that were made a second time."""
        return frozenset(self.values_of.get(tensor, ())) & self.remade

    def _again(self, tensor: int) -> str:
        """A tensor's second self: of a copied node, or the same view of one, or computed on the fly from one."""
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

    def _hold_back(self, node: int, name: str) -> bool:
        """Let a copy read what exists a second time, and hold it back until its trigger is there.

        Held back it is through what it reads. One input is enough: the smallest, for a large one would be copied. Only
        what is computed on the fly is held back through all that is large, where that costs nothing, so that the
        compiler finds nothing to share with the original.
        """
        held = False
        loose: list[tuple[int, int]] = []
        for position, tensor in enumerate(self.graph.inputs_of(node)):
            reference = self._held(tensor)
            if reference is not None:
                self.inputs.append((name, position, reference))
                held = True
            elif self._can_wait(node, position, tensor):
                loose.append((position, tensor))
        sizes = self.work.sizes
        large = [each for each in loose if each[1] in self.values_of] if self.graph.ops[node] in FUSIBLE else []
        if not held and not large:
            large = sorted(loose, key=lambda each: sizes[each[1]])[:1]
        for position, tensor in large:
            assert self.trigger is not None
            self.inputs.append((name, position, self._tie(tensor, self.trigger)))
        return held or bool(large)

    def _turn_late(self, node: int, name: str) -> None:
        """Hold a filter back until the gradient is there: turned round it would lie there for most of the step."""
        turned, gradient = (self.graph.inputs_of(node)[position] for position in (_FILTER, _GRADIENT))
        if self.work.sizes[turned] >= _WORTH_HOLDING and self.graph.dtypes[gradient] in _FLOATS:
            self.inputs.append((name, _FILTER, self._tie(turned, gradient)))

    def _held(self, tensor: int) -> str | None:
        """What something that runs again reads in place of a tensor, if that makes it wait."""
        renewed = self._renewed_values(tensor)
        if tensor not in self.problem.through:
            return self._again(tensor) if renewed else None
        key = (tensor, self.trigger, renewed)
        if key not in self.chains:
            node = self.producer[tensor]
            name = self._copy(node)
            held = self._hold_back(node, name)
            self.chains[key] = _reference(name, tensor - self.graph.first_output[node]) if held else None
        return self.chains[key]

    def _can_wait(self, node: int, position: int, tensor: int) -> bool:
        # What is constant may have to be so: an axis, a shape, a step of a range.
        if self.trigger is None or self.work.role[self.producer[tensor]] == CONSTANT:
            return False
        if self.graph.ops[node].startswith(_RANDOM):
            return position == _KEY
        return self.graph.dtypes[tensor] in _FLOATS

    def _tie(self, tensor: int, trigger: int) -> str:
        key = (tensor, trigger)
        if key not in self.held_back:
            tie = f"{self.graph.names[self.producer[tensor]]}/{AGAIN}_tied_{len(self.ties)}"
            self.held_back[key] = tie
            self.ties.append((tie, self._name(tensor), self._name(trigger)))
        return self.held_back[key]

    def _name(self, tensor: int) -> str:
        node = self.producer[tensor]
        return _reference(self.graph.names[node], tensor - self.graph.first_output[node])


def _reference(name: str, port: int) -> str:
    return f"{name}:{port}" if port else name


def _values(work: Workload, problem: Problem) -> dict[int, tuple[int, ...]]:
    """The values behind each large tensor: what it is, or shows, or is computed from on the fly."""
    values_of = {tensor: (value,) for value, tensor in enumerate(problem.tensors)} | problem.through
    # A view may come before or after what it shows in the file, so views are followed until nothing new is found.
    views = [(output, source) for takes in work.buffer_reuses for output, source, always in takes if always]
    while views:
        found = [(output, source) for output, source in views if source in values_of]
        if not found:
            break
        for output, source in found:
            values_of.setdefault(output, values_of[source])
        views = [view for view in views if view[0] not in values_of]
    return values_of
