"""Greedy search: from a schedule above its budget to one within it, move by move.

The bytes above the budget, summed over the positions of a schedule, are an *area* to remove. The move that removes
most of it per microsecond comes first. An upper bound of each task's gain is kept in a queue and evaluated only when
its turn comes, because most moves change the gain of few other tasks.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Collection, Iterable

from lowtide.planning.remat.candidate_moves import Move, gaps, remat_moves, removal, removal_moves
from lowtide.planning.remat.schedule_state import ScheduleState
from lowtide.planning.tuning import TUNING


class GreedySearch:
    """Lowers a schedule or makes it cheaper."""

    def __init__(self, state: ScheduleState, rng: random.Random, on_move: Callable[[], None] = lambda: None) -> None:
        problem = state.problem
        self.state = state
        self.problem = problem
        self.rng = rng
        self.on_move = on_move
        costs = sorted(cost for cost, allowed in zip(problem.cost_us, problem.can_remat, strict=True) if allowed)
        # Costs below this count as equal, so that nearly free tasks do not compete by the ratio of tiny numbers.
        self.least_us = max(1e-6, costs[len(costs) // 2] * 1e-3) if costs else 1.0
        self.price: float | None = None
        self.noise = 0.0
        self.noise_factors: dict[tuple[int, int], float] = {}
        self.tried_limit: float = math.inf
        """The search stops after this many evaluated changes."""

    @property
    def exhausted(self) -> bool:
        """Whether the effort is used up."""
        return self.state.tried >= self.tried_limit

    def descend(
        self,
        limit_us: float = math.inf,
        tasks: Collection[int] | None = None,
        banned: Collection[int] = (),
        noise: float = 0.0,
    ) -> bool:
        """Make the best moves until nothing is above the budget; return False if no move is left, or at a cost limit.

        Moves are those of `tasks`, or of all. Banned tasks are not rematerialized; `noise` shuffles similar moves.
        """
        state = self.state
        tasks = range(len(self.problem)) if tasks is None else tasks
        self.noise, self.noise_factors = noise, {}
        queue: list[tuple[float, int]] = []
        latest: dict[int, float] = {}
        moved = True
        while state.area:
            if self.exhausted:
                return False
            if not queue:
                if not moved:
                    return False
                latest = self._bounds(tasks, banned)
                queue = [(bound, task) for task, bound in latest.items()]
                heapq.heapify(queue)
                moved = False
                continue
            bound, task = heapq.heappop(queue)
            if latest[task] != bound:
                continue
            move, gain = self._best_move(task, banned)
            if move is None:
                continue
            if queue and gain < -queue[0][0] * TUNING.remat_slack:
                latest[task] = -gain
                heapq.heappush(queue, (-gain, task))
                continue
            state.commit(move.change)
            if state.cost_us > limit_us:
                return False
            self.price = 1 / gain
            self.on_move()
            moved = True
            for near, bound in self._bounds(self._neighbors(move), banned).items():
                latest[near] = bound
                heapq.heappush(queue, (bound, near))
        return True

    def descend_in_stages(self, stages: int) -> bool:
        """Lower the budget in stages: removing the top of the peak first is often cheaper in the end."""
        state = self.state
        budget, start = state.budget_bytes, state.peak_bytes
        for stage in range(1, stages + 1):
            state.set_budget(start - (start - budget) * stage // stages)
            self.descend()
            self.prune()
        return not state.area

    def prune(self, tasks: Collection[int] | None = None, noise: float = 0.0) -> None:
        """Keep values again where the budget has room, the most expensive first."""
        state, costs = self.state, self.problem.cost_us
        changed = True
        while changed:
            changed = False
            candidates = state.remat_tasks() if tasks is None else tasks
            for task in sorted(candidates, key=lambda task: -costs[task] * self._random_factor(noise)):
                if self.exhausted:
                    return
                if state.slots[task] < state.no_slot:
                    change = removal(state, task)
                    if state.effect(change).area <= 0:
                        state.commit(change)
                        changed = True

    def _random_factor(self, noise: float) -> float:
        return math.exp(self.rng.uniform(-noise, noise)) if noise else 1.0

    def _bounds(self, tasks: Iterable[int], banned: Collection[int]) -> dict[int, float]:
        """Return upper bounds of the gain of each task's best move, negated, for tasks that may have one."""
        bounds = {}
        for task in tasks:
            if self.problem.can_remat[task]:
                gain = self._gain_bound(task, banned)
                if gain > 0:
                    bounds[task] = -gain
        return bounds

    def _gain_bound(self, task: int, banned: Collection[int]) -> float:
        """Return the gain of a task's best move, or an upper bound from its gaps, without evaluating a change."""
        if self.state.slots[task] < self.state.no_slot:
            return self._best_move(task, banned)[1]
        if task in banned:
            return 0.0
        cost = max(self.problem.cost_us[task], self.least_us)
        return max((area / cost * self._noise_factor(task, slot) for slot, area in gaps(self.state, task)), default=0.0)

    def _best_move(self, task: int, banned: Collection[int]) -> tuple[Move | None, float]:
        """Return the best move of a task, and its gain including noise."""
        state = self.state
        best, most = None, 0.0
        for move in removal_moves(state, task):
            gain = move.gain(self.least_us) * self._noise_factor(task, state.no_slot)
            if gain > most:
                best, most = move, gain
        if task in banned:
            return best, most
        cost = self.least_us if state.slots[task] < state.no_slot else max(self.problem.cost_us[task], self.least_us)
        for slot, area in gaps(state, task):
            factor = self._noise_factor(task, slot)
            if area / cost * factor <= most:
                continue
            for move in remat_moves(state, task, slot, self.price, banned):
                gain = move.gain(self.least_us) * factor
                if gain > most:
                    best, most = move, gain
        return best, most

    def _noise_factor(self, task: int, slot: int) -> float:
        """Return the noise on the gain of a task in a slot, which is the same throughout one search."""
        if not self.noise:
            return 1.0
        key = task, slot
        if key not in self.noise_factors:
            self.noise_factors[key] = self._random_factor(self.noise)
        return self.noise_factors[key]

    def _neighbors(self, move: Move) -> set[int]:
        """Return the tasks whose gain may be higher after a move: those that it reads, and those that read it."""
        state, problem = self.state, self.problem
        near = {state.maker[value] for task in move.change for value in problem.reads[task]}
        near |= {reader for task in move.change for value in problem.makes[task] for reader in state.readers[value]}
        return near
