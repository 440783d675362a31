"""The search for what to compute again, so that a step keeps within a budget at the least cost.

Descents begin at the plain course and at courses with checkpoints, which see what no single move would. The best is
worked on further: a part of it is given up and looked for again. How long this goes on is counted in changes that
were tried, not in seconds, so the answer is the same on every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from lowtide.planning.problem import Flood, Instance, Problem, measure
from lowtide.planning.remat.candidate_moves import removal
from lowtide.planning.remat.checkpoints import segments, square_root, turning_point
from lowtide.planning.remat.greedy_search import Descent
from lowtide.planning.remat.schedule_state import Draft

# Hears how far the work is, from 0 to 1.
Progress = Callable[[float], None]

# How many changes are tried in all, about: up to this share of them to begin with, the rest to improve on that.
EFFORT = 25_000
_BEGINNING = 0.5
# How much more may be tried on the way down from the plain course, and to find at least the lowest.
_TOO_MUCH, _MUCH_TOO_MUCH = 40_000, 60_000
# From checkpoints, which are a course of any graph, so many changes and some for each task.
_AFTER_CHECKPOINTS, _PER_TASK = 20_000, 4
# How many changes a descent tries for each task, at least.
_WAY_DOWN = 2
# In how many steps a descent goes down to its budget; which is best differs from graph to graph.
_STEPS = (3, 6, 12, 1)
# Looking for a cheaper course: how often in vain (for each task that may run again, and at most); among how many tasks,
# where there are many; how many are given up in the mean, how often as neighbours, and how often with all the others.
_PATIENCE, _MOST_PATIENCE = 10, 250
_AROUND = 60
_GIVEN_UP = 2.5
_NEIGHBOURS = 0.33
_AFRESH = 0.3
# How much chance there is in what comes first, and by how much a course may be dearer than the last, to begin with.
_NOISES = (0.4, 1.0, 2.0)
_WARMTH = 0.1
# How often the space between a peak that is reached and one that is not is halved.
_HALVINGS = 8
_ATTEMPTS = 2
_CLOSE = 1 / 500


@dataclass(frozen=True, slots=True)
class Recomputation:
    """A task that runs again."""

    task: int
    saves_bytes: int
    """What it does not hold meanwhile."""
    cost_us: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The course that was found."""

    course: list[Instance]
    flood: Flood
    recomputed: tuple[Recomputation, ...]
    within: bool
    """Whether it keeps the budget; if not, it is the lowest that was found."""
    slots: list[int] = field(default_factory=list)
    """Where in the base order each task runs again, as in a draft."""
    tried: int = 0
    """How many changes were tried to find it."""


def lower(
    problem: Problem,
    budget_bytes: int,
    progress: Progress | None = None,
    effort: int = EFFORT,
    start: Answer | None = None,
) -> Answer:
    """The cheapest course that keeps a budget; where none was found, the one with the smallest peak.

    `start` is an answer to nearly the same question, from which it is not far to the one that is sought.
    """
    draft = Draft(problem, budget_bytes)
    if draft.area:
        _Search(draft, progress or (lambda share: None), effort).run(start.slots if start else None)
    flood = measure(problem, course := draft.course())
    recomputed = tuple(
        Recomputation(task, sum(problem.sizes[value] for value in problem.makes[task]), problem.cost_us[task])
        for task in draft.recomputed()
    )
    within = max(flood.peak_bytes, problem.base_bytes) <= budget_bytes
    return Answer(course, flood, recomputed, within, draft.slots, draft.tried)


def frontier(problem: Problem, points: int = 8) -> list[tuple[int, float, int]]:
    """What other budgets would cost, from the plain peak down: (peak bytes, extra microseconds, tasks run again).

    One descent that rests now and then: each point continues from the one before.
    """
    draft = Draft(problem, 0)
    descent = Descent(draft, random.Random(0))
    descent.most_tried = _MUCH_TOO_MUCH
    found = [(draft.peak_bytes, 0.0, 0)]
    plain, least = draft.peak_bytes, _floor(problem)
    for step in range(1, points):
        draft.aim(plain - (plain - least) * step // (points - 1))
        within = descent.descend()
        descent.prune()
        if draft.peak_bytes < found[-1][0]:
            found.append((draft.peak_bytes, draft.cost_us, len(draft.recomputed())))
        if not within:
            break
    return found


def _floor(problem: Problem) -> int:
    """No course is below this: what the most demanding task needs at once."""
    needs = []
    for task, workspace in enumerate(problem.workspace):
        own = {*problem.reads[task], *problem.makes[task]} - {made for made, _ in problem.takes[task]}
        needs.append(workspace + sum(problem.sizes[value] for value in own))
    return problem.base_bytes + max(needs, default=0)


class _Search:
    """A draft that is above its budget, on its way to the cheapest that is not."""

    def __init__(self, draft: Draft, progress: Progress, effort: int) -> None:
        self.draft = draft
        self.effort = effort
        self.progress = progress
        self.share = 0.0
        self.goal = effort
        self.dice = random.Random(0)
        self.descent = Descent(draft, self.dice, self._tell)

    def run(self, start: list[int] | None = None) -> None:
        """Find the cheapest course, or the lowest."""
        self._go_on_until(self.effort + _TOO_MUCH)
        if not self._begin(start):
            self._go_on_until(self.draft.tried + _MUCH_TOO_MUCH)
            self._sink_from_several()
        if not self.draft.area:
            self._go_on_until(self.draft.tried + self.effort, self.effort)
            self._improve()

    def _go_on_until(self, tried: int, about: int | None = None) -> None:
        """Look for no more changes after so many; about so many may be needed."""
        self.descent.most_tried = tried
        self.goal = about or tried

    def _tell(self) -> None:
        """Say how far the work is, never less than before."""
        self.share = max(self.share, min(1.0, self.draft.tried / max(self.goal, 1)))
        self.progress(self.share)

    def _begin(self, start: list[int] | None) -> bool:
        """Find the cheapest of what descents from several beginnings reach; where none does, the lowest."""
        draft = self.draft
        plain = lowest = draft.snapshot()
        best: Draft | None = None
        for slots, steps in self._beginnings(start):
            draft.restore(plain)
            if slots is None:
                within = self.descent.wade(steps)
            else:
                self._go_on_until(draft.tried + _AFTER_CHECKPOINTS + _PER_TASK * len(draft.problem), self.goal)
                draft.reset(slots)
                if draft.peak_bytes < lowest.peak_bytes:
                    lowest = draft.snapshot()
                within = self.descent.descend(best.cost_us if best else math.inf)
                self.descent.prune()
            if within and (best is None or draft.cost_us < best.cost_us):
                best = draft.snapshot()
            elif draft.peak_bytes < lowest.peak_bytes:
                lowest = draft.snapshot()
            self._tell()
        draft.restore(best or lowest)
        return best is not None

    def _beginnings(self, start: list[int] | None) -> Iterator[tuple[list[int] | None, int]]:
        """Slots to begin with and the steps to go down in: the most promising first, more as far as effort goes."""
        checkpoints = self._checkpoints()
        if start is not None:
            yield start, 1
        if start is None or self.draft.area:
            yield None, _STEPS[0]
            yield next(checkpoints), 1
        for steps in _STEPS[1:]:
            if self._has_room(_WAY_DOWN * len(self.draft.problem)):
                yield None, steps
        while self._has_room(0) and (slots := next(checkpoints, None)) is not None:
            yield slots, 1

    def _checkpoints(self) -> Iterator[list[int]]:
        """Courses with checkpoints: first as many as square-root checkpointing has, then ever more and fewer."""
        problem = self.draft.problem
        turn, root = turning_point(problem), square_root(problem)
        for count in sorted(range(1, max(3 * root, 2)), key=lambda count: abs(math.log(count / root))):
            yield segments(problem, count, turn)

    def _has_room(self, more: int) -> bool:
        """Whether so many changes more may be tried to begin with."""
        return self.draft.tried + more < _BEGINNING * self.effort

    def _improve(self) -> None:
        """Give up a part of the course and descend again; keep what is cheaper, or at first not much dearer."""
        draft, descent = self.draft, self.descent
        best = current = draft.snapshot()
        in_vain = 0
        patience = min(_MOST_PATIENCE, _PATIENCE * sum(draft.problem.recomputable))
        while draft.tried < self.effort and in_vain < patience and (tasks := draft.recomputed()):
            self._tell()
            given_up = self._give_up(tasks)
            for task in given_up:
                if draft.slots[task] < draft.never:
                    draft.commit(removal(draft, task))
            around = self._around(given_up)
            banned = given_up if self.dice.random() < 0.5 else ()
            if self.dice.random() < _AFRESH and len(around) == len(draft.problem):
                draft.reset([draft.never] * draft.never)
            if descent.descend(best.cost_us * 1.2, around, banned, self.dice.choice(_NOISES)):
                descent.prune(around, _NOISES[0])
            in_vain += 1
            warmth = _WARMTH * (1 - draft.tried / self.effort) * self.dice.random()
            if draft.area or draft.cost_us > current.cost_us * (1 + warmth):
                draft.restore(current)
                continue
            current = draft.snapshot()
            if current.cost_us < best.cost_us:
                best, in_vain = current, 0
        draft.restore(best)

    def _give_up(self, tasks: list[int]) -> list[int]:
        """Some tasks of a course: neighbours, or any, the more expensive the likelier."""
        dice, costs = self.dice, self.draft.problem.cost_us
        count = min(len(tasks), 1 + int(dice.expovariate(1 / _GIVEN_UP)))
        if dice.random() < _NEIGHBOURS:
            first = dice.randrange(len(tasks) - count + 1)
            return tasks[first : first + count]
        power = dice.choice((0.0, 0.5, 1.0))
        least = self.descent.least_us
        return sorted(tasks, key=lambda task: dice.expovariate(max(costs[task], least) ** power))[:count]

    def _around(self, tasks: list[int]) -> Collection[int]:
        """Tasks to try instead of others: all, if they are few; else their neighbours, and some from anywhere."""
        count = len(self.draft.problem)
        if count <= 2 * _AROUND:
            return range(count)
        reach = _AROUND // (2 * len(tasks))
        near = {each for task in tasks for each in range(max(0, task - reach), min(count, task + reach + 1))}
        return sorted(near.union(self.dice.sample(range(count), _AROUND)))

    def _sink_from_several(self) -> None:
        """Find the lowest course, from the lowest that is known and from courses with checkpoints: they end apart."""
        draft = self.draft
        self._sink()
        lowest = draft.snapshot()
        for slots in self._checkpoints():
            if not draft.area or self.descent.tired:
                break
            draft.reset(slots)
            self._sink()
            if (draft.peak_bytes, draft.cost_us) < (lowest.peak_bytes, lowest.cost_us):
                lowest = draft.snapshot()
        draft.restore(lowest)

    def _sink(self) -> None:
        """Find a low course: aim between what is reached and what is not, until they meet."""
        draft, descent = self.draft, self.descent
        budget = draft.budget_bytes
        best, missed = draft.snapshot(), max(_floor(draft.problem) - 1, budget)
        for _ in range(_HALVINGS):
            if descent.tired or best.peak_bytes - missed < _CLOSE * best.peak_bytes:
                break
            goal = (best.peak_bytes + missed) // 2
            for attempt in range(_ATTEMPTS):
                draft.restore(best)
                draft.aim(goal)
                within = descent.descend(noise=_NOISES[0] if attempt else 0.0)
                if draft.peak_bytes < best.peak_bytes:
                    best = draft.snapshot()
                if within:
                    break
            else:
                missed = goal
        draft.restore(best)
        draft.aim(max(best.peak_bytes, budget))
        descent.prune()
        draft.aim(budget)
