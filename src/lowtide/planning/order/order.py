"""The order: of all orders in which a step's nodes may run, one with a low peak."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.errors import LowtideError
from lowtide.planning.order.order_search import lowest
from lowtide.planning.order.tasks import TaskId, Tasks, find_tasks
from lowtide.planning.order.weight_updates import run_updates_early
from lowtide.progress import Progress, ProgressCallback
from lowtide.simulator.allocation_stream import AllocationStream
from lowtide.simulator.executor import execute, replay
from lowtide.simulator.workload import Workload

# Steps of the plain executor to start from: threads and seed. The order that is found is none above theirs.
_PLAIN = ((1, 0), (2, 0), (2, 1), (2, 2))


@dataclass(frozen=True, slots=True)
class Ordered:
    """All nodes of a step in a legal order."""

    nodes: list[int]
    peak_bytes: int
    """The most in use at once when they run one after the other, with all that is there before the step."""


def lowest_order(work: Workload, progress: ProgressCallback | None = None) -> Ordered:
    """An order with a low peak; no higher than that of the executor's own orders that it starts from."""
    if work.control_flow:
        raise LowtideError(
            "a graph whose loops are taken apart has no order",
            given=next(op for op in work.graph.ops if op in ("Switch", "Merge", "Enter", "RefSwitch", "RefEnter")),
            cure="keep loops and branches as single nodes: While, If",
        )
    if progress is not None:
        progress(Progress("looking for an order with a low peak"))
    plain = [execute(work, threads, seed) for threads, seed in _PLAIN]
    tasks = find_tasks(work, plain[0].order, peak_of(plain[0]) - bytes_before(plain[0]))
    task_of = {node: task for task, node in enumerate(tasks.nodes)}
    # The order of the file is that of tracing: a gradient is followed by the next, and then come all updates.
    wishes = [sorted(range(len(tasks)), key=tasks.nodes.__getitem__)]
    wishes += [[task_of[node] for node in schedule.order if node in task_of] for schedule in plain]
    orders = [expand(work, tasks, run_updates_early(tasks, lowest(tasks, wishes)))]
    orders += [schedule.order for schedule in plain]
    return min((Ordered(order, peak_of(replay(work, order))) for order in orders), key=lambda each: each.peak_bytes)


def expand(work: Workload, tasks: Tasks, order: Sequence[TaskId]) -> list[int]:
    """All nodes: the tasks in their order, every other node as soon as it can run."""
    is_task = [False] * len(work.graph)
    for node in tasks.nodes:
        is_task[node] = True
    waiting = list(work.pending)
    nodes: list[int] = []
    ready = deque(node for node in work.roots if not is_task[node])
    upcoming = iter(order)
    while True:
        if ready:
            node = ready.popleft()
        elif (task := next(upcoming, None)) is not None:
            node = tasks.nodes[task]
        else:
            return nodes
        nodes.append(node)
        for other in work.successors[node]:
            waiting[other] -= 1
            if not waiting[other] and not is_task[other]:
                ready.append(other)


def bytes_before(stream: AllocationStream) -> int:
    """What is there before the step."""
    return sum(stream.sizes[buffer] for buffer in stream.before)


def peak_of(stream: AllocationStream) -> int:
    """The most bytes in use at once, as they were asked for."""
    sizes = stream.sizes
    now = highest = bytes_before(stream)
    for event in stream.events:
        if event >= 0:
            now += sizes[event]
            highest = max(now, highest)
        else:
            now -= sizes[~event]
    return highest
