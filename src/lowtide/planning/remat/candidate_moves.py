"""What can be done to a draft: compute something again, with what it needs; or hold it after all.

What a copy reads must be at hand where it runs. If it is not, it is either held until then or computed again as well,
and so may be what that reads: a *bundle*. Which is better depends on what else is in memory meanwhile, so several
bundles are tried.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lowtide.planning.remat.schedule_state import Change, Draft, Effect

# More places than this to be let go and made again are not tried for one task.
_GAPS = 4

# Nor is more than this computed again for its sake.
_BUNDLE = 100

# How a bundle decides about what is not at hand: hold it longer; compute it again; hold it where the budget has room
# for it; hold it where that is cheaper at the going price.
HOLD, AGAIN, ROOM, PRICE = range(4)


@dataclass(slots=True)
class Move:
    """A change, and what it does."""

    change: Change
    effect: Effect

    def gain(self, least_us: float) -> float:
        """Area that goes, per microsecond."""
        return -self.effect.area / max(self.effect.cost_us, least_us)


def gaps(draft: Draft, task: int) -> list[tuple[int, int]]:
    """The slots in which a task could run again so that it frees positions above the budget, the best first.

    With each comes the most area that can go by what the task makes.
    """
    width, never, slots = draft.width, draft.never, draft.slots
    size = sum(draft.problem.sizes[value] for value in draft.problem.makes[task])
    keys = {task * width + never}
    for value in draft.problem.makes[task]:
        for reader in draft.readers[value]:
            keys.add(reader * width + never)
            if slots[reader] < never:
                keys.add(slots[reader] * width + reader)
    found = []
    events = sorted(keys)
    for i in range(1, len(events)):
        slot = events[i] // width
        if slot != events[i - 1] // width and slot != slots[task]:
            area = draft.area_within(events[i - 1] + 1, slot * width + task, size)
            if area > 0:
                found.append((-area, slot))
    return [(slot, -area) for area, slot in sorted(found)[:_GAPS]]


def bundle(
    draft: Draft, task: int, slot: int, policy: int, price: float, banned: Collection[int] = ()
) -> dict[int, int]:
    """Run a task again in a slot, and with it what the policy does not hold for it."""
    problem, never, width = draft.problem, draft.never, draft.width
    change = {task: slot}
    stack = [task]
    while stack and len(change) < _BUNDLE:
        current = stack.pop()
        for value in problem.reads[current]:
            maker = draft.maker[value]
            if change.get(maker, draft.slots[maker]) <= slot:
                continue  # a copy is made before, and is held until here
            end = draft.lives[value][0][1]
            if end >= slot * width + current or not problem.recomputable[maker] or maker in banned:
                continue
            if not _hold(draft, value, end, slot, policy, price):
                change[maker] = slot
                stack.append(maker)
    return settle(draft, change) if any(draft.slots[each] < never for each in change) else change


def _hold(draft: Draft, value: int, end: int, slot: int, policy: int, price: float) -> bool:
    """Whether a value is rather held from the end of its life to a slot than computed again there."""
    size = draft.problem.sizes[value]
    if policy == ROOM:
        return draft.highest_within(end + 1, slot * draft.width) + size <= draft.budget_bytes
    if policy == PRICE:
        crowded = draft.crowded_within(end + 1, slot * draft.width)
        return price * size * crowded < draft.problem.cost_us[draft.maker[value]]
    return policy == HOLD


def removal(draft: Draft, task: int) -> dict[int, int]:
    """Hold what a task makes instead of running it again."""
    return settle(draft, {task: draft.never})


def settle(draft: Draft, change: dict[int, int]) -> dict[int, int]:
    """Let copies go that nobody reads after a change, and let others wait for the first that still reads them."""
    problem, slots, never = draft.problem, draft.slots, draft.never
    later = [-task for task, slot in change.items() if slot > slots[task]]
    heapq.heapify(later)
    while later:
        task = -heapq.heappop(later)
        for value in problem.reads[task]:
            maker = draft.maker[value]
            slot = change.get(maker, slots[maker])
            if slot == never:
                continue
            first = _first_reader(draft, maker, slot, change)
            if first > slot:
                change[maker] = first
                heapq.heappush(later, -maker)
    return {task: slot for task, slot in change.items() if slot != slots[task]}


def _first_reader(draft: Draft, task: int, slot: int, change: Change) -> int:
    """The slot of the first reader of a task's copy; never, if it has none."""
    slots, never = draft.slots, draft.never
    first = never
    for value in draft.problem.makes[task]:
        for reader in draft.readers[value]:
            if slot <= reader < first:
                first = reader
            again = change.get(reader, slots[reader])
            # In the same slot the reader's copy comes after, for it has the higher number.
            if slot <= again < first:
                first = again
    return first


def removals(draft: Draft, task: int) -> Iterator[Move]:
    """To hold after all what a task makes, where it runs again."""
    if draft.slots[task] < draft.never:
        change = removal(draft, task)
        yield Move(change, draft.effect(change))


def repetitions(
    draft: Draft, task: int, slot: int, price: float | None, banned: Collection[int] = ()
) -> Iterator[Move]:
    """Every way to run a task again in a slot."""
    tried: list[Change] = []
    for policy in (HOLD, AGAIN, ROOM) if price is None else (HOLD, AGAIN, ROOM, PRICE):
        change = bundle(draft, task, slot, policy, price or 0.0, banned)
        if len(change) >= _BUNDLE:
            continue
        if change not in tried:
            tried.append(change)
            yield Move(change, draft.effect(change))
        elif policy == AGAIN:
            break  # everything is at hand: there is nothing to decide
