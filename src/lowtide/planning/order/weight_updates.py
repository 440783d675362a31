"""Gradients of weights, and the updates they are for, run as soon as they can.

A gradient that waits for the end of the step to be applied is small beside an activation, and seldom part of the peak.
But it lies in the middle of what the allocator has, and keeps apart what is free on either side. And where the
gradient itself is computed late, the activation that it needs is kept as long, or has to be computed again just for it.
So all that leads to the change of one variable only runs as soon as the last thing that it waits for is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lowtide.planning.memory_profile import Gauge
from lowtide.planning.order.tasks import TaskId, Tasks

# Where a group would raise the peak, less of it is moved, or nothing; so often that is tried.
_MOST_TRIES = 200
# A task that leads to more than one end.
_MANY = -1

Groups = dict[TaskId, set[TaskId]]
"""By the task that ends it: the tasks that lead to nothing else."""


def run_updates_early(tasks: Tasks, order: Sequence[TaskId]) -> list[TaskId]:
    """The same order with updates moved to where their gradient can be made, as far as its peak stays what it is."""
    gauge = Gauge(tasks)
    peak_bytes = int(gauge.hills(order).max(initial=0))
    end_of = _ends(tasks, order)
    groups: Groups = defaultdict(set)
    updates: Groups = defaultdict(set)
    for task, end in enumerate(end_of):
        if end != _MANY and not _only_waits(tasks, task):
            groups[end].add(task)
            # The gradient reads what others read too; what comes after it reads nothing but what was made for it.
            makers = (tasks.makers[value] for value in tasks.reads[task])
            if all(maker is None or end_of[maker] == end for maker in makers):
                updates[end].add(task)
    for _ in range(_MOST_TRIES):
        moved = _move(tasks, order, groups)
        hills = gauge.hills(moved)
        if int(hills.max(initial=0)) <= peak_bytes:
            return moved
        nearest = _nearest(moved, groups, int(hills.argmax()))
        if nearest is None:
            break
        if groups[nearest] == updates[nearest]:
            del groups[nearest]
        else:
            groups[nearest] = updates[nearest]
    return list(order)


def _ends(tasks: Tasks, order: Sequence[TaskId]) -> list[TaskId]:
    """The one task that each task leads to in the end; `_MANY` where there are several."""
    end_of: list[TaskId] = [_MANY] * len(tasks)
    for task in reversed(order):
        ends = {end_of[other] for other in tasks.after[task] if not _only_waits(tasks, other)}
        end_of[task] = task if not ends else ends.pop() if len(ends) == 1 else _MANY
    return end_of


def _only_waits(tasks: Tasks, task: TaskId) -> bool:
    """Whether a task touches no memory: the end of a step waits for all updates, and is the aim of none."""
    return not (tasks.reads[task] or tasks.makes[task] or tasks.workspace[task])


def _move(tasks: Tasks, order: Sequence[TaskId], groups: Groups) -> list[TaskId]:
    """Each group runs behind the last of what it waits for."""
    place = [0] * len(order)
    for position, task in enumerate(order):
        place[task] = position
    behind: dict[int, list[TaskId]] = defaultdict(list)
    moving: set[TaskId] = set()
    for group in groups.values():
        sources = {source for task in group for source in tasks.before[task]} - group
        if not sources:
            continue
        last = max(place[source] for source in sources)
        # Who is waited for by somebody who does not move must not come later than before.
        if all(place[task] > last or group.issuperset(tasks.after[task]) for task in group):
            behind[last] += sorted(group, key=place.__getitem__)
            moving |= group
    moved: list[TaskId] = []
    for position, task in enumerate(order):
        if task not in moving:
            moved.append(task)
        moved += behind.get(position, ())
    return moved


def _nearest(order: Sequence[TaskId], groups: Groups, place: int) -> TaskId | None:
    """The group that runs nearest to a place, before it or there."""
    end_of = {task: end for end, group in groups.items() for task in group}
    found = (end_of[order[position]] for position in range(place, -1, -1) if order[position] in end_of)
    return next(found, None)
