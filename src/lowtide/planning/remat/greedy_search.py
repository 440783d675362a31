"""A Descent: from a draft that is above its budget to one that is not, move by move.

The bytes above the budget, summed over the positions of a course, are an *area* that has to go. The move that takes
most of it per microsecond comes first. What each task promises is kept in a queue and looked at again only when its
turn comes, because most moves change the prospects of few others.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Collection, Iterable

from lowtide.planning.remat.candidate_moves import Move, gaps, removal, removals, repetitions
from lowtide.planning.remat.schedule_state import Draft

# A move is made if the next one in the queue does not promise more than it by a twentieth.
_SLACK = 0.95


class Descent:
    """A draft, and what lowers it or makes it cheaper."""

    def __init__(self, draft: Draft, dice: random.Random, tell: Callable[[], None] = lambda: None) -> None:
        problem = draft.problem
        self.draft = draft
        self.problem = problem
        self.dice = dice
        self.tell = tell
        """Hears of every move."""
        costs = sorted(cost for cost, again in zip(problem.cost_us, problem.recomputable, strict=True) if again)
        # What costs next to nothing is not better by the ratio of two nothings.
        self.least_us = max(1e-6, costs[len(costs) // 2] * 1e-3) if costs else 1.0
        self.price: float | None = None
        self.noise = 0.0
        self.luck: dict[tuple[int, int], float] = {}
        self.most_tried: float = math.inf
        """After so many changes were tried no more are looked for."""

    @property
    def tired(self) -> bool:
        """Whether no more changes are looked for."""
        return self.draft.tried >= self.most_tried

    def descend(
        self,
        limit_us: float = math.inf,
        tasks: Collection[int] | None = None,
        banned: Collection[int] = (),
        noise: float = 0.0,
    ) -> bool:
        """Make the best moves until nothing is above the budget; give up where none is left, or at a limit of cost.

        The moves are those of `tasks`, or of all. What is banned does not run again; noise shuffles what is alike.
        """
        draft = self.draft
        tasks = range(len(self.problem)) if tasks is None else tasks
        self.noise, self.luck = noise, {}
        queue: list[tuple[float, int]] = []
        latest: dict[int, float] = {}
        moved = True
        while draft.area:
            if self.tired:
                return False
            if not queue:
                if not moved:
                    return False
                latest = self._promises(tasks, banned)
                queue = [(promise, task) for task, promise in latest.items()]
                heapq.heapify(queue)
                moved = False
                continue
            promise, task = heapq.heappop(queue)
            if latest[task] != promise:
                continue
            move, gain = self._best(task, banned)
            if move is None:
                continue
            if queue and gain < -queue[0][0] * _SLACK:
                latest[task] = -gain
                heapq.heappush(queue, (-gain, task))
                continue
            draft.commit(move.change)
            if draft.cost_us > limit_us:
                return False
            self.price = 1 / gain
            self.tell()
            moved = True
            for near, promise in self._promises(self._near(move), banned).items():
                latest[near] = promise
                heapq.heappush(queue, (promise, near))
        return True

    def wade(self, steps: int) -> bool:
        """Go down to the budget step by step: what takes off the peak first is often cheaper in the end."""
        draft = self.draft
        budget, start = draft.budget_bytes, draft.peak_bytes
        for step in range(1, steps + 1):
            draft.aim(start - (start - budget) * step // steps)
            self.descend()
            self.prune()
        return not draft.area

    def prune(self, tasks: Collection[int] | None = None, noise: float = 0.0) -> None:
        """Hold again what the budget has room for, the most expensive first."""
        draft, costs = self.draft, self.problem.cost_us
        again = True
        while again:
            again = False
            candidates = draft.recomputed() if tasks is None else tasks
            for task in sorted(candidates, key=lambda task: -costs[task] * self._vary(noise)):
                if self.tired:
                    return
                if draft.slots[task] < draft.never:
                    change = removal(draft, task)
                    if draft.effect(change).area <= 0:
                        draft.commit(change)
                        again = True

    def _vary(self, noise: float) -> float:
        return math.exp(self.dice.uniform(-noise, noise)) if noise else 1.0

    def _promises(self, tasks: Iterable[int], banned: Collection[int]) -> dict[int, float]:
        """The most that the best move of each task could gain, negated, where there may be one."""
        promises = {}
        for task in tasks:
            if self.problem.recomputable[task]:
                gain = self._prospect(task, banned)
                if gain > 0:
                    promises[task] = -gain
        return promises

    def _prospect(self, task: int, banned: Collection[int]) -> float:
        """What the best move of a task gains, or at most gains: that is told by its gaps, without trying anything."""
        if self.draft.slots[task] < self.draft.never:
            return self._best(task, banned)[1]
        if task in banned:
            return 0.0
        cost = max(self.problem.cost_us[task], self.least_us)
        return max((area / cost * self._luck(task, slot) for slot, area in gaps(self.draft, task)), default=0.0)

    def _best(self, task: int, banned: Collection[int]) -> tuple[Move | None, float]:
        """The best move of a task, and what it gains with the luck of this descent."""
        draft = self.draft
        best, most = None, 0.0
        for move in removals(draft, task):
            gain = move.gain(self.least_us) * self._luck(task, draft.never)
            if gain > most:
                best, most = move, gain
        if task in banned:
            return best, most
        cost = self.least_us if draft.slots[task] < draft.never else max(self.problem.cost_us[task], self.least_us)
        for slot, area in gaps(draft, task):
            luck = self._luck(task, slot)
            if area / cost * luck <= most:
                continue
            for move in repetitions(draft, task, slot, self.price, banned):
                gain = move.gain(self.least_us) * luck
                if gain > most:
                    best, most = move, gain
        return best, most

    def _luck(self, task: int, slot: int) -> float:
        """What chance makes of a task in a slot, for as long as one descent goes."""
        if not self.noise:
            return 1.0
        place = task, slot
        if place not in self.luck:
            self.luck[place] = self._vary(self.noise)
        return self.luck[place]

    def _near(self, move: Move) -> set[int]:
        """Tasks whose prospects may be better after a move: what it reads, and what reads it."""
        draft, problem = self.draft, self.problem
        near = {draft.maker[value] for task in move.change for value in problem.reads[task]}
        near |= {reader for task in move.change for value in problem.makes[task] for reader in draft.readers[value]}
        return near
