"""An order of a step's nodes with a low peak."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.errors import LowtideError
from lowtide.planning.order.order_problem import build_order_problem
from lowtide.planning.order.order_search import find_low_peak_order
from lowtide.planning.order.weight_updates import run_updates_early
from lowtide.planning.problem import PlanningProblem, TaskId
from lowtide.planning.tuning import TUNING
from lowtide.simulator.allocation_stream import AllocationStream
from lowtide.simulator.executor import execute, replay
from lowtide.simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """All nodes of a step in a legal order."""

    nodes: list[int]
    peak_bytes: int
    """The peak if they run one after the other, including what exists before the step."""


def lowest_order(work: Workload) -> NodeOrder:
    """Find an order with a low peak; it is never above the executor's own orders that the search starts from."""
    if work.control_flow:
        raise LowtideError(
            "a graph whose loops are taken apart has no order",
            given=next(op for op in work.graph.ops if op in ("Switch", "Merge", "Enter", "RefSwitch", "RefEnter")),
            cure="keep loops and branches as single nodes: While, If",
        )
    plain = [execute(work, threads, seed) for threads, seed in TUNING.plain_executions]
    problem = build_order_problem(work, plain[0].order, peak_of(plain[0]) - bytes_before(plain[0]))
    task_of = {node: task for task, node in enumerate(problem.nodes)}
    # The order of the file is that of tracing: gradients one after the other, then all updates.
    preferred = [sorted(range(len(problem)), key=problem.nodes.__getitem__)]
    preferred += [[task_of[node] for node in stream.order if node in task_of] for stream in plain]
    found = run_updates_early(problem, find_low_peak_order(problem, preferred))
    orders = [insert_small_nodes(work, problem, found), *(stream.order for stream in plain)]
    return min((NodeOrder(order, peak_of(replay(work, order))) for order in orders), key=lambda each: each.peak_bytes)


def insert_small_nodes(work: Workload, problem: PlanningProblem, order: Sequence[TaskId]) -> list[int]:
    """Return all nodes: the tasks in their order, and every other node as soon as it can run."""
    is_task = [False] * len(work.graph)
    for node in problem.nodes:
        is_task[node] = True
    waiting = list(work.pending)
    nodes: list[int] = []
    ready = deque(node for node in work.roots if not is_task[node])
    upcoming = iter(order)
    while True:
        if ready:
            node = ready.popleft()
        elif (task := next(upcoming, None)) is not None:
            node = problem.nodes[task]
        else:
            return nodes
        nodes.append(node)
        for other in work.successors[node]:
            waiting[other] -= 1
            if not waiting[other] and not is_task[other]:
                ready.append(other)


def bytes_before(stream: AllocationStream) -> int:
    """Return the bytes in use before the step."""
    return sum(stream.sizes[buffer] for buffer in stream.before)


def peak_of(stream: AllocationStream) -> int:
    """Return the most bytes in use at once, as they were requested."""
    sizes = stream.sizes
    now = highest = bytes_before(stream)
    for event in stream.events:
        if event >= 0:
            now += sizes[event]
            highest = max(now, highest)
        else:
            now -= sizes[~event]
    return highest
