"""The planning problem: what planning needs to know about a step.

A step has thousands of nodes, but a few hundred large values make up most of its memory. A *value* is a buffer: a
tensor and all views of it. A *task* is a node that makes or reads a large value. Small nodes run as soon as they can
and are not planned. Variables, arguments and constants exist throughout the step and count in `base_bytes`.

One walk over the nodes builds the problem. The remat search takes the order of the tasks as given. The order search
also needs to know which task waits for which, and that updates of variables free memory: `planning.order.order_problem`
adds both to the same walk.

A value that a compiler computes on the fly is not in memory: a task that reads it *reads through* it the values that
it is computed from. Where a step runs on several devices, each has its own memory and its own *part* of the problem.
The parts are listed one after the other, because no value of one device is alive on another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lowtide.program.dtypes import RESOURCE, VARIANT
from lowtide.simulator.workload import ARGUMENT, COMPUTE, CONSTANT, READ, RETURN, Workload

TaskId = int
ValueId = int
# A task in a schedule: t where task t runs first, ~t where it is rematerialized.
Instance = int


@dataclass
class PlanningProblem:
    """The tasks of a step in a legal order, and the values between them."""

    reads: list[tuple[ValueId, ...]] = field(default_factory=list)
    """The values that each task reads."""
    makes: list[tuple[ValueId, ...]] = field(default_factory=list)
    """The values that each task makes."""
    reuses: list[tuple[tuple[ValueId, ValueId], ...]] = field(default_factory=list)
    """Per task, pairs (made, read): the first may reuse the buffer of the second, if no other task still needs it."""
    cost_us: list[float] = field(default_factory=list)
    workspace: list[int] = field(default_factory=list)
    """Bytes that a task allocates only while it runs."""
    can_remat: list[bool] = field(default_factory=list)
    """Whether a task may run twice: it neither reads nor changes state."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of each value."""
    lasting: list[bool] = field(default_factory=list)
    """Whether a value stays until the end of the step."""
    base_bytes: int = 0
    """What is in use throughout, and what the small values take."""
    total_us: float = 0.0
    """The time of the whole step, small nodes included."""
    nodes: list[int] = field(default_factory=list)
    """The graph node of each task."""
    tensors: list[int] = field(default_factory=list)
    """The graph tensor of each value."""
    through: dict[int, tuple[ValueId, ...]] = field(default_factory=dict)
    """Tensors that are computed on the fly, and the values that are read through each."""
    parts: list[TaskId] = field(default_factory=lambda: [0])
    """The first task of each device."""
    waits_for: list[tuple[TaskId, ...]] = field(default_factory=list)
    """The tasks that each task waits for; only the order search needs them."""

    def __len__(self) -> int:
        return len(self.reads)

    def part_of(self, task: TaskId) -> int:
        """Return the index of the device that a task runs on."""
        return bisect_right(self.parts, task) - 1

    @cached_property
    def makers(self) -> list[TaskId | None]:
        """The task that makes each value; None for a variable, which exists before the step."""
        makers: list[TaskId | None] = [None] * len(self.sizes)
        for task, made in enumerate(self.makes):
            for value in made:
                makers[value] = task
        return makers

    @cached_property
    def readers(self) -> list[list[TaskId]]:
        """The tasks that read each value, in order."""
        readers: list[list[TaskId]] = [[] for _ in self.sizes]
        for task, reads in enumerate(self.reads):
            for value in dict.fromkeys(reads):
                readers[value].append(task)
        return readers

    @cached_property
    def followers(self) -> list[list[TaskId]]:
        """The tasks that wait for each task."""
        followers: list[list[TaskId]] = [[] for _ in self.reads]
        for task, sources in enumerate(self.waits_for):
            for source in sources:
                followers[source].append(task)
        return followers


def build_problem(
    work: Workload,
    order: Iterable[int],
    stateful: frozenset[str],
    smallest_bytes: int,
    base_bytes: int,
    fused: frozenset[int] = frozenset(),
    devices: Sequence[str] | None = None,
) -> PlanningProblem:
    """Build the remat problem of a graph whose nodes run in this order.

    `stateful` ops must not run twice. `fused` nodes are computed on the fly wherever their results are read. `devices`
    gives the device of each node, if there are several.
    """
    orders: dict[str, list[int]] = {}
    for node in order:
        orders.setdefault(devices[node] if devices else "", []).append(node)
    builder = ProblemBuilder(work, smallest_bytes, stateful, fused)
    problem = builder.problem
    problem.base_bytes = base_bytes
    problem.parts.clear()
    for nodes in orders.values():
        builder.start_part()
        for node in nodes:
            builder.visit(node)
    problem.total_us = sum(work.cost_us) - sum(work.cost_us[node] for node in fused)
    return problem


class ProblemBuilder:
    """Walks the nodes of a step in a legal order and collects tasks and values."""

    def __init__(
        self,
        work: Workload,
        smallest_bytes: int,
        stateful: frozenset[str] = frozenset(),
        fused: frozenset[int] = frozenset(),
    ) -> None:
        self.work = work
        self.smallest_bytes = smallest_bytes
        self.stateful = stateful
        self.fused = fused
        self.problem = PlanningProblem()
        self.value_of: dict[int, ValueId] = {}
        """The value of each large tensor."""

    def start_part(self) -> None:
        """Start the part of another device; values that come from elsewhere are not counted there."""
        self.value_of.clear()
        self.problem.parts.append(len(self.problem))

    def visit(self, node: int) -> None:
        """Add the next node."""
        role = self.work.role[node]
        if role in (ARGUMENT, CONSTANT) or (role == READ and self.skips_read(node)):
            return
        reads = self.values_read(node)
        if role == RETURN:
            for value in reads:
                self.problem.lasting[value] = True
        elif node in self.fused:
            if reads:
                self.problem.through |= dict.fromkeys(self.work.outputs[node], tuple(dict.fromkeys(reads)))
        else:
            self.visit_compute(node, reads, self._made_tensors(node))

    def skips_read(self, node: int) -> bool:
        """Whether the read of a variable needs no task; here variables count in `base_bytes`."""
        return True

    def values_read(self, node: int) -> list[ValueId]:
        """Return the values that a node reads, with repetitions."""
        value_of, through = self.value_of, self.problem.through
        reads: list[ValueId] = []
        for tensor in self.work.inputs[node]:
            value = value_of.get(tensor)
            reads += through.get(tensor, ()) if value is None else (value,)
        return reads

    def output_bytes(self, node: int, tensor: int) -> int:
        """Return the size of an output."""
        return self.work.sizes[tensor]

    def visit_compute(self, node: int, reads: list[ValueId], made: dict[int, int]) -> None:
        """Add a task for a node that makes a large value, or reads one and does more than return a view of it."""
        outputs = self.work.outputs[node]
        views = {output for output, _, always in self.work.buffer_reuses[node] if always}
        if made or (reads and not len(views) == len(outputs) > 0):
            self.add_task(node, reads, made, sum(self.work.temporaries[node]))

    def can_reuse(self, value: ValueId, reads: list[ValueId]) -> bool:
        """Whether an output may reuse the buffer of a value that its node reads."""
        return True

    def _made_tensors(self, node: int) -> dict[int, int]:
        """Return the large outputs that have their own buffer, with their sizes; register views of known values."""
        work, value_of, through = self.work, self.value_of, self.problem.through
        viewed = {output: source for output, source, always in work.buffer_reuses[node] if always}
        made = {}
        for tensor in work.outputs[node]:
            if tensor in viewed:
                source = viewed[tensor]
                if source in value_of:
                    value_of[tensor] = value_of[source]
                elif source in through:
                    through[tensor] = through[source]
                continue
            size = self.output_bytes(node, tensor)
            if size >= self.smallest_bytes:
                made[tensor] = size
        return made

    def add_task(self, node: int, reads: list[ValueId], made: dict[int, int], workspace: int) -> TaskId:
        """Add a task and the values that it makes."""
        work, problem, value_of = self.work, self.problem, self.value_of
        for tensor, size in made.items():
            value_of[tensor] = self.add_value(tensor, size)
        problem.nodes.append(node)
        problem.reads.append(tuple(dict.fromkeys(reads)))
        problem.makes.append(tuple(value_of[tensor] for tensor in made))
        problem.reuses.append(
            tuple(
                (value_of[output], value_of[source])
                for output, source, always in work.buffer_reuses[node]
                if not always and output in made and source in value_of and self.can_reuse(value_of[source], reads)
            )
        )
        problem.cost_us.append(work.cost_us[node])
        problem.workspace.append(workspace)
        problem.can_remat.append(work.role[node] == COMPUTE and self._is_pure(node))
        return len(problem) - 1

    def add_value(self, tensor: int, size: int, lasting: bool = False) -> ValueId:
        """Add a value."""
        problem = self.problem
        problem.sizes.append(size)
        problem.lasting.append(lasting)
        problem.tensors.append(tensor)
        return len(problem.sizes) - 1

    def _is_pure(self, node: int) -> bool:
        work, graph = self.work, self.work.graph
        tensors = (*work.inputs[node], *work.outputs[node])
        return graph.ops[node] not in self.stateful and not any(
            graph.dtypes[tensor] in (RESOURCE, VARIANT) for tensor in tensors
        )
