"""From a course to a Rewrite: which nodes get a copy, who reads it, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lowtide.graph.graph import Graph
from lowtide.planning.edges import ordering_edges
from lowtide.planning.problem import Instance, Problem
from lowtide.planning.rewrite import Rewrite
from lowtide.tide.workload import RETURN, Workload

# A copy is named after its original, so that it is found to be of the same layer.
AGAIN = "again"
_FILTER_GRADIENTS = frozenset({"Conv2DBackpropFilter", "_MklNativeConv2DBackpropFilter", "_MklConv2DBackpropFilter"})
# What a tie waits for must be a number.
_FLOATS = frozenset({1, 2, 14, 19})


def realize(work: Workload, problem: Problem, course: Sequence[Instance], tied: bool = False) -> Rewrite:
    """The edits that make a graph run as a course says.

    An executor is held to the order by control edges. Where these do not hold, under XLA, only the copies are held
    back: `tied`, what they read is made to depend on what ran last before them.
    """
    writer = _Writer(work, problem, tied)
    for instance in course:
        writer.run(instance)
    writer.finish()
    controls = () if tied else _hold(writer)
    return Rewrite(tuple(writer.copies.items()), tuple(writer.inputs), tuple(controls), tuple(writer.ties))


def _hold(writer: _Writer) -> list[tuple[str, str]]:
    """Control edges for the order.

    oneDNN computes a bias gradient together with the filter gradient beside it, as one node, if both wait for the same
    nodes. The filter gradient stands for both in the order, or the node that they become would wait for itself.
    """
    waits_for = writer.waits_for()
    twins = writer.twins()
    edges = _order_of_each(([name for name in course if name not in twins] for course in writer.courses), waits_for)
    both = [
        *edges,
        *(
            (before, twin)
            for twin, filter_gradient in twins.items()
            for before, after in edges
            if after == filter_gradient
        ),
    ]
    if not _has_circle(waits_for, both, twins):
        return both
    # Their results are needed too far apart: they stay two nodes.
    apart = _order_of_each(writer.courses, waits_for)
    place = {name: position for course in writer.courses for position, name in enumerate(course)}
    pairs = [sorted(pair, key=place.__getitem__) for pair in twins.items()]
    return [*apart, *((first, second) for first, second in pairs if (first, second) not in set(apart))]


def _order_of_each(courses: Iterable[list[str]], waits_for: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Control edges for the order of each device. All are parts of one order, so they never wait for each other."""
    return [edge for course in courses for edge in ordering_edges(course, waits_for)]


def _has_circle(waits_for: dict[str, list[str]], edges: list[tuple[str, str]], one: dict[str, str]) -> bool:
    """Whether a graph would wait for itself if nodes became `one` with others."""
    readers: dict[str, list[str]] = {}
    waiting: dict[str, int] = {}
    every = [(source, name) for name, sources in waits_for.items() for source in sources]
    for source, name in (*every, *edges):
        before, after = one.get(source, source), one.get(name, name)
        waiting.setdefault(before, 0)
        waiting[after] = waiting.get(after, 0) + 1
        readers.setdefault(before, []).append(after)
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:
        for reader in readers.get(name, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return len(ready) < len(waiting)


class _Writer:
    """Follows a course and notes what has to change."""

    def __init__(self, work: Workload, problem: Problem, tied: bool) -> None:
        self.work = work
        self.graph: Graph = work.graph
        self.problem = problem
        self.tied = tied
        self.value_of = _values(work, problem)
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
        self.trigger: int | None = None
        self.held_back: dict[tuple[int, int], str] = {}

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
            self._remember_trigger(node)
            return
        name = self._copy(node)
        course.append(name)
        self._redirect(node, name)
        for tensor in self.graph.outputs_of(node):
            self.renewed[tensor] = _reference(name, tensor - self.graph.first_output[node])
        self.remade.update(self.problem.makes[~instance])
        if self.tied:
            self._tie(node, name)

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

    def waits_for(self) -> dict[str, list[str]]:
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
        name = f"{original}/{AGAIN}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        self.copies[name] = original
        return name

    def _redirect(self, node: int, name: str) -> None:
        """Let a node, or its copy, read what exists a second time."""
        for position, tensor in enumerate(self.graph.inputs_of(node)):
            if self.value_of.get(tensor) in self.remade:
                self.inputs.append((name, position, self._again(tensor)))

    def _again(self, tensor: int) -> str:
        """A tensor's second self: of a copied node, or the same view of one."""
        if tensor not in self.renewed:
            node = self.producer[tensor]
            name = self._copy(node)
            for output in self.graph.outputs_of(node):
                self.renewed[output] = _reference(name, output - self.graph.first_output[node])
            self._redirect(node, name)
        return self.renewed[tensor]

    def _remember_trigger(self, node: int) -> None:
        for tensor in self.graph.outputs_of(node):
            if self.graph.dtypes[tensor] in _FLOATS and self.work.consumers[tensor]:
                self.trigger = tensor
                return

    def _tie(self, node: int, name: str) -> None:
        """Hold a copy back until its trigger is there, through every number that it reads from before."""
        if self.trigger is None:
            return
        for position, tensor in enumerate(self.graph.inputs_of(node)):
            if self.value_of.get(tensor) in self.remade or self.graph.dtypes[tensor] not in _FLOATS:
                continue
            key = (tensor, self.trigger)
            if key not in self.held_back:
                tie = f"{self.graph.names[self.producer[tensor]]}/{AGAIN}_tied_{len(self.ties)}"
                self.held_back[key] = tie
                self.ties.append((tie, self._name(tensor), self._name(self.trigger)))
            self.inputs.append((name, position, self.held_back[key]))

    def _name(self, tensor: int) -> str:
        node = self.producer[tensor]
        return _reference(self.graph.names[node], tensor - self.graph.first_output[node])


def _reference(name: str, port: int) -> str:
    return f"{name}:{port}" if port else name


def _values(work: Workload, problem: Problem) -> dict[int, int]:
    """The value that each large tensor is, or shows."""
    value_of = {tensor: value for value, tensor in enumerate(problem.tensors)}
    # A view may come before or after what it shows in the file, so views are followed until nothing new is found.
    views = [(output, source) for takes in work.takes for output, source, always in takes if always]
    while views:
        found = [(output, source) for output, source in views if source in value_of]
        if not found:
            break
        for output, source in found:
            value_of[output] = value_of[source]
        views = [view for view in views if view[0] not in value_of]
    return value_of
