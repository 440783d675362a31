"""The executor: the order in which the nodes of a step run.

TensorFlow runs a graph with a pool of threads. A node is ready when all its inputs are available. After a node has run,
the nodes that it made ready are scheduled in order: cheap ones join the thread's own queue, the last of the expensive
ones runs next on the same thread if that queue is empty, and the others go to the pool. A pool thread takes its own
newest task first and steals another thread's oldest. This module simulates that with estimated durations, because the
order decides how many activations and gradients are alive together.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Iterable
from statistics import NormalDist

from lowtide.simulator.allocation_stream import AllocationStream
from lowtide.simulator.control_flow import ControlFlow, DataFlow, Tag
from lowtide.simulator.kernel_memory import KernelMemory
from lowtide.simulator.tuning import (
    DURATION_SPREAD,
    FRAMED_NODE_OVERHEAD_US,
    LONGEST_STALL_US,
    NODE_OVERHEAD_US,
    STALL_EVERY_US,
    WAKE_US,
)
from lowtide.simulator.workload import COMPUTE, MOST_ORDERED_EDGES, Workload

# A duration is multiplied by one of these quantiles of a log-normal distribution.
_FACTORS = [math.exp(DURATION_SPREAD * NormalDist().inv_cdf((index + 0.5) / 256)) for index in range(256)]


def execute(work: Workload, threads: int = 2, seed: int = 0, branch: bool = True) -> AllocationStream:
    """Simulate one step and return its allocations and frees.

    `seed` draws the durations; `branch` is the branch that is taken where the condition depends on the data.
    """
    return _ThreadPool(work, threads, random.Random(seed), branch).run()


def execute_hoarding(work: Workload, branch: bool = True) -> AllocationStream:
    """Simulate a step that frees memory as late as the rules of the executor permit.

    One thread takes from all ready nodes the one that adds most memory. The iterations of a loop then run ahead of the
    sums over its iterations as far as `parallel_iterations` permits. A thread that the operating system suspends at the
    wrong moment comes close to that.
    """
    rng = random.Random(0)
    memory = KernelMemory(work)
    readiness = ControlFlow(work, memory, rng, branch) if work.control_flow else DataFlow(work, memory, rng)
    added = [_added_bytes(work, node) for node in range(len(work.graph))]
    ready = [(-added[tag[0]], number, tag) for number, tag in enumerate(readiness.roots())]
    heapq.heapify(ready)
    number = len(ready)
    while ready:
        tag = heapq.heappop(ready)[2]
        for following in readiness.finish(tag, readiness.start(tag)):
            number += 1
            heapq.heappush(ready, (-added[following[0]], number, following))
    return memory.close()


def _added_bytes(work: Workload, node: int) -> int:
    """Return the bytes that a kernel adds: those of its outputs, less those of inputs that no other node reads."""
    if work.role[node] != COMPUTE:
        return 0
    shared = {tensor for output, source, always in work.buffer_reuses[node] if always for tensor in (output, source)}
    allocated = sum(work.sizes[tensor] for tensor in work.outputs[node] if tensor not in shared)
    return allocated - sum(
        work.sizes[tensor] for tensor in work.inputs[node] if work.reader_counts[tensor] == 1 and tensor not in shared
    )


def replay(work: Workload, order: Iterable[int]) -> AllocationStream:
    """Return the stream of a step whose nodes run one after the other in the given order; loops have no such order."""
    memory = KernelMemory(work)
    buffers = [0] * work.graph.tensor_count
    for node in order:
        memory.finish(node, buffers, memory.start(node, buffers))
    return memory.close()


class _ThreadPool:
    """The threads of the inter-op pool, each with a queue of tasks and a queue of nodes to run inline."""

    def __init__(self, work: Workload, threads: int, rng: random.Random, branch: bool) -> None:
        self.work = work
        self.rng = rng
        self.memory = KernelMemory(work)
        self.readiness = (
            ControlFlow(work, self.memory, rng, branch) if work.control_flow else DataFlow(work, self.memory, rng)
        )
        self.tasks: list[deque[Tag]] = [deque() for _ in range(threads)]
        self.inline: list[deque[Tag]] = [deque() for _ in range(threads)]
        self.idle: list[int] = []
        self.clock: list[tuple[float, int, int, Tag | None, list[int]]] = []
        self.sequence = 0
        self.cost_us = self._draw_costs() if work.control_flow else work.cost_us
        self.overhead_us = FRAMED_NODE_OVERHEAD_US if work.control_flow else NODE_OVERHEAD_US

    def run(self) -> AllocationStream:
        # One thread runs the source node, which makes every node without inputs ready at once.
        self.idle = list(range(1, len(self.tasks)))
        roots = self.readiness.roots()
        if len(roots) > MOST_ORDERED_EDGES:
            self.rng.shuffle(roots)
        self._schedule(0.0, 0, roots)
        self._at(0.0, 0, None, [])
        while self.clock:
            time, _, thread, running, temporaries = heapq.heappop(self.clock)
            self._work(time, thread, running, temporaries)
        return self.memory.close()

    def _draw_costs(self) -> list[float]:
        """Draw how long each kernel takes in this step; a kernel is as slow in each iteration of a loop."""
        draw = self.rng.random
        return [cost * _FACTORS[int(draw() * 256)] for cost in self.work.cost_us]

    def _at(self, time: float, thread: int, tag: Tag | None, temporaries: list[int]) -> None:
        self.sequence += 1
        heapq.heappush(self.clock, (time, self.sequence, thread, tag, temporaries))

    def _work(self, time: float, thread: int, tag: Tag | None, temporaries: list[int]) -> None:
        """Finish a node, then run more nodes until one would end after another thread's next event."""
        clock, readiness, costs, draw = self.clock, self.readiness, self.cost_us, self.rng.random
        while True:
            if tag is not None:
                ready = readiness.finish(tag, temporaries)
                if ready:
                    self._schedule(time, thread, ready)
            tag = self._next(thread)
            if tag is None:
                self.idle.append(thread)
                return
            temporaries = readiness.start(tag)
            cost = costs[tag[0]]
            time += self.overhead_us + cost * _FACTORS[int(draw() * 256)]
            if draw() * STALL_EVERY_US < cost:
                time += draw() * LONGEST_STALL_US
            if clock and clock[0][0] < time:
                self._at(time, thread, tag, temporaries)
                return

    def _schedule(self, time: float, thread: int, ready: list[Tag]) -> None:
        cheap, inline, tasks = self.work.cheap, self.inline[thread], self.tasks[thread]
        last = None
        sent = 0
        for tag in ready:
            if tag[2] or cheap[tag[0]]:
                inline.append(tag)
            else:
                if last is not None:
                    tasks.appendleft(last)
                    sent += 1
                last = tag
        if last is not None:
            if inline:
                tasks.appendleft(last)
                sent += 1
            else:
                inline.append(last)
        while sent and self.idle:
            sent -= 1
            self._at(time + WAKE_US * self.rng.random(), self.idle.pop(), None, [])

    def _next(self, thread: int) -> Tag | None:
        if self.inline[thread]:
            return self.inline[thread].popleft()
        if self.tasks[thread]:
            return self.tasks[thread].popleft()
        victims = [other for other, tasks in enumerate(self.tasks) if tasks]
        return self.tasks[self.rng.choice(victims)].pop() if victims else None
