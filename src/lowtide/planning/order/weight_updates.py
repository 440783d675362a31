"""Move gradients of weights, and the updates that use them, to where they can run first.

A gradient that waits for the end of the step is small beside an activation and seldom part of the peak. But it lies
between free chunks of the allocator and keeps them apart. Where the gradient itself is computed late, the activation
that it needs is kept as long, or has to be rematerialized for it. So everything that leads only to the change of one
variable runs as soon as the last task that it waits for is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lowtide.planning.memory_profile import OrderProfiler
from lowtide.planning.problem import PlanningProblem, TaskId
from lowtide.planning.tuning import TUNING

Groups = dict[TaskId, set[TaskId]]
"""For each last task: the tasks that lead to nothing else."""


def run_updates_early(problem: PlanningProblem, order: Sequence[TaskId]) -> list[TaskId]:
    """Move updates to where their gradient can be computed, as long as the peak does not rise."""
    profiler = OrderProfiler(problem)
    peak_bytes = int(profiler.bytes_per_task(order).max(initial=0))
    end_of = _ends(problem, order)
    groups: Groups = defaultdict(set)
    updates: Groups = defaultdict(set)
    for task, end in enumerate(end_of):
        if end is not None and not _only_waits(problem, task):
            groups[end].add(task)
            # The gradient reads what other tasks read too; the update after it reads only what was made for it.
            makers = (problem.makers[value] for value in problem.reads[task])
            if all(maker is None or end_of[maker] == end for maker in makers):
                updates[end].add(task)
    for _ in range(TUNING.update_tries):
        moved = _move(problem, order, groups)
        bytes_per_task = profiler.bytes_per_task(moved)
        if int(bytes_per_task.max(initial=0)) <= peak_bytes:
            return moved
        # Move less of the group nearest to the new peak: first only the update, then nothing.
        nearest = _nearest(moved, groups, int(bytes_per_task.argmax()))
        if nearest is None:
            break
        if groups[nearest] == updates[nearest]:
            del groups[nearest]
        else:
            groups[nearest] = updates[nearest]
    return list(order)


def _ends(problem: PlanningProblem, order: Sequence[TaskId]) -> list[TaskId | None]:
    """Return the last task that each task leads to; None where there are several."""
    end_of: list[TaskId | None] = [None] * len(problem)
    for task in reversed(order):
        ends = {end_of[other] for other in problem.followers[task] if not _only_waits(problem, other)}
        end_of[task] = task if not ends else ends.pop() if len(ends) == 1 else None
    return end_of


def _only_waits(problem: PlanningProblem, task: TaskId) -> bool:
    """Whether a task touches no memory: the end of a step waits for all updates, but no update leads to it."""
    return not (problem.reads[task] or problem.makes[task] or problem.workspace[task])


def _move(problem: PlanningProblem, order: Sequence[TaskId], groups: Groups) -> list[TaskId]:
    """Run each group right after the last task that it waits for."""
    position_of = [0] * len(order)
    for position, task in enumerate(order):
        position_of[task] = position
    after: dict[int, list[TaskId]] = defaultdict(list)
    moving: set[TaskId] = set()
    for group in groups.values():
        sources = {source for task in group for source in problem.waits_for[task]} - group
        if not sources:
            continue
        last = max(position_of[source] for source in sources)
        # A task that others outside the group wait for must not run later than before.
        if all(position_of[task] > last or group.issuperset(problem.followers[task]) for task in group):
            after[last] += sorted(group, key=position_of.__getitem__)
            moving |= group
    moved: list[TaskId] = []
    for position, task in enumerate(order):
        if task not in moving:
            moved.append(task)
        moved += after.get(position, ())
    return moved


def _nearest(order: Sequence[TaskId], groups: Groups, position: int) -> TaskId | None:
    """Return the group that runs nearest to a position, before it or there."""
    end_of = {task: end for end, group in groups.items() for task in group}
    found = (end_of[order[each]] for each in range(position, -1, -1) if order[each] in end_of)
    return next(found, None)
