"""Updates run when their gradient is there.

A gradient that waits for the end of the step to be applied is small beside an activation, and seldom part of the peak.
But it lies in the middle of what the allocator has, and keeps apart what is free on either side. So all that leads to
the change of one variable only, and reads nothing that others read too, runs as soon as the last thing that it waits
for is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lowtide.planning.gauge import Gauge
from lowtide.planning.tasks import TaskId, Tasks

# Where an update would raise the peak it stays where it was; so often others are tried without it.
_MOST_TRIES = 24
# A task that leads to more than one end.
_MANY = -1


def run_updates_early(tasks: Tasks, order: Sequence[TaskId]) -> list[TaskId]:
    """The same order with updates moved to where their gradient is made, as far as its peak stays what it is."""
    gauge = Gauge(tasks)
    peak_bytes = int(gauge.hills(order).max(initial=0))
    groups = _groups(tasks, order)
    for _ in range(_MOST_TRIES):
        moved = _move(tasks, order, groups)
        hills = gauge.hills(moved)
        if int(hills.max(initial=0)) <= peak_bytes:
            return moved
        place = int(hills.argmax())
        found = next((end for end, group in groups.items() if _is_around(moved, group, place)), None)
        if found is None:
            break
        del groups[found]
    return list(order)


def _groups(tasks: Tasks, order: Sequence[TaskId]) -> dict[TaskId, set[TaskId]]:
    """By the task that ends it: the tasks that lead to nothing else and read nothing of others but variables."""
    end_of: list[TaskId] = [_MANY] * len(tasks)
    for task in reversed(order):
        ends = {end_of[other] for other in tasks.after[task] if not _only_waits(tasks, other)}
        end_of[task] = task if not ends else ends.pop() if len(ends) == 1 else _MANY
    groups: dict[TaskId, set[TaskId]] = defaultdict(set)
    for task in order:
        makers = (tasks.makers[value] for value in tasks.reads[task])
        if _only_waits(tasks, task):
            continue
        if end_of[task] != _MANY and all(maker is None or end_of[maker] == end_of[task] for maker in makers):
            groups[end_of[task]].add(task)
    return groups


def _only_waits(tasks: Tasks, task: TaskId) -> bool:
    """Whether a task touches no memory: the end of a step waits for all updates, and is the aim of none."""
    return not (tasks.reads[task] or tasks.makes[task] or tasks.workspace[task])


def _move(tasks: Tasks, order: Sequence[TaskId], groups: dict[TaskId, set[TaskId]]) -> list[TaskId]:
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
        stays = {task for task in group if place[task] < last and not group.issuperset(tasks.after[task])}
        if not stays:
            behind[last] += sorted(group, key=place.__getitem__)
            moving |= group
    moved: list[TaskId] = []
    for position, task in enumerate(order):
        if task not in moving:
            moved.append(task)
        moved += behind.get(position, ())
    return moved


def _is_around(order: Sequence[TaskId], group: set[TaskId], place: int) -> bool:
    """Whether a group runs at a place, or just behind or before it."""
    return not group.isdisjoint(order[max(place - 1, 0) : place + 2])
