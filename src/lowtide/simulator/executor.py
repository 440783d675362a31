"""The executor: in which order a step's nodes run.

TensorFlow runs a graph with a pool of threads. A node whose inputs are all there is ready; after a node has
run, the nodes it made ready are treated in order: cheap ones join the thread's own queue, of the expensive
ones the last runs next on the same thread if that queue is empty, and the others go to the pool. A pool thread
takes its own newest task first and steals another thread's oldest. This file simulates just that with
estimated durations, because who runs first decides how many activations and gradients are alive together.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Iterable
from statistics import NormalDist

from lowtide.simulator.buffer_references import Holdings, Schedule
from lowtide.simulator.control_flow import Flow, FramedFlow, Tag
from lowtide.simulator.workload import MOST_ORDERED_EDGES, Workload

# What it takes to move a node through the queues, in microseconds: more where frames are kept. Durations are those of
# the whole machine at work; what one thread does alone counts half, for the other thread has the rest meanwhile.
NODE_OVERHEAD_US = 1.0
FRAMED_NODE_OVERHEAD_US = 1.5
# A sleeping thread of the pool takes this long to notice new work.
WAKE_US = 20.0
# Durations vary from step to step; a seed draws each from a log-normal spread around the estimate.
SPREAD = 0.3
_FACTORS = [math.exp(SPREAD * NormalDist().inv_cdf((index + 0.5) / 256)) for index in range(256)]

# Kernels have threads of their own, so more threads want to run than there are processors: once in so much work the
# system takes the processor away for up to a slice of its time. Meanwhile the other thread runs ahead, in a loop by
# many rounds.
STALL_EVERY_US, LONGEST_STALL_US = 5_000.0, 8_000.0


def execute(work: Workload, threads: int = 2, seed: int = 0, branch: bool = True) -> Schedule:
    """Simulate one step and return its stream of allocations and frees."""
    return _Pool(work, threads, random.Random(seed), branch).run()


def replay(work: Workload, order: Iterable[int]) -> Schedule:
    """The stream of a step whose nodes run one after the other in a given order; loops have no such order."""
    holdings = Holdings(work)
    buffers = [0] * work.graph.tensor_count
    for node in order:
        holdings.finish(node, buffers, holdings.start(node, buffers))
    return holdings.close()


class _Pool:
    """The threads of the inter-op pool, each with its queue of tasks and its queue of nodes to run inline."""

    def __init__(self, work: Workload, threads: int, chance: random.Random, branch: bool) -> None:
        self.work = work
        self.chance = chance
        self.holdings = Holdings(work)
        self.flow = (
            FramedFlow(work, self.holdings, chance, branch) if work.control_flow else Flow(work, self.holdings, chance)
        )
        self.tasks: list[deque[Tag]] = [deque() for _ in range(threads)]
        self.inline: list[deque[Tag]] = [deque() for _ in range(threads)]
        self.idle: list[int] = []
        self.clock: list[tuple[float, int, int, Tag | None, list[int]]] = []
        self.sequence = 0
        self.overhead_us = FRAMED_NODE_OVERHEAD_US if work.control_flow else NODE_OVERHEAD_US

    def run(self) -> Schedule:
        # One thread meets the node that all others wait for, and finds everything without inputs ready at once.
        self.idle = list(range(1, len(self.tasks)))
        roots = self.flow.roots()
        if len(roots) > MOST_ORDERED_EDGES:
            self.chance.shuffle(roots)
        self._schedule(0.0, 0, roots)
        self._at(0.0, 0, None, [])
        while self.clock:
            time, _, thread, running, borrowed = heapq.heappop(self.clock)
            self._work(time, thread, running, borrowed)
        self.holdings.schedule.duration_us = time
        return self.holdings.close()

    def _at(self, time: float, thread: int, tag: Tag | None, borrowed: list[int]) -> None:
        self.sequence += 1
        heapq.heappush(self.clock, (time, self.sequence, thread, tag, borrowed))

    def _work(self, time: float, thread: int, tag: Tag | None, borrowed: list[int]) -> None:
        """Finish a node, then run on until a node would end after another thread's next event."""
        clock, flow, costs, spread = self.clock, self.flow, self.work.cost_us, self.chance.random
        while True:
            if tag is not None:
                ready = flow.finish(tag, borrowed)
                if ready:
                    self._schedule(time, thread, ready)
            tag = self._next(thread)
            if tag is None:
                self.idle.append(thread)
                return
            borrowed = flow.start(tag)
            cost = costs[tag[0]]
            time += self.overhead_us + cost * _FACTORS[int(spread() * 256)]
            if spread() * STALL_EVERY_US < cost:
                time += spread() * LONGEST_STALL_US
            if clock and clock[0][0] < time:
                self._at(time, thread, tag, borrowed)
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
            self._at(time + WAKE_US * self.chance.random(), self.idle.pop(), None, [])

    def _next(self, thread: int) -> Tag | None:
        if self.inline[thread]:
            return self.inline[thread].popleft()
        if self.tasks[thread]:
            return self.tasks[thread].popleft()
        victims = [other for other, tasks in enumerate(self.tasks) if tasks]
        return self.tasks[self.chance.choice(victims)].pop() if victims else None
