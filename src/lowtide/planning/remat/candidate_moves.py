"""Candidate moves of the remat search: rematerialize a task with what it needs, or keep its values after all.

What a copy reads must be in memory where it runs. If it is not, it is either kept until then or rematerialized as
well, and so may be what that reads: a *bundle*. Which is better depends on what else is in memory meanwhile, so several
bundles are tried.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lowtide.planning.remat.schedule_state import Change, Effect, ScheduleState
from lowtide.planning.tuning import TUNING

# How a bundle treats a value that is not in memory: keep it longer; rematerialize it; keep it where the budget has
# room; keep it where that is cheaper at the current price of memory.
KEEP, REMAT, ROOM, PRICE = range(4)


@dataclass(slots=True)
class Move:
    """A change and its effect."""

    change: Change
    effect: Effect

    def gain(self, least_us: float) -> float:
        """Return the area that the move removes per microsecond."""
        return -self.effect.area / max(self.effect.cost_us, least_us)


def gaps(state: ScheduleState, task: int) -> list[tuple[int, int]]:
    """Return the slots where a copy of a task would free positions above the budget, best first.

    Each slot comes with an upper bound of the area that freeing the task's values there removes.
    """
    width, no_slot, slots = state.width, state.no_slot, state.slots
    size = sum(state.problem.sizes[value] for value in state.problem.makes[task])
    keys = {task * width + no_slot}
    for value in state.problem.makes[task]:
        for reader in state.readers[value]:
            keys.add(reader * width + no_slot)
            if slots[reader] < no_slot:
                keys.add(slots[reader] * width + reader)
    found = []
    events = sorted(keys)
    for i in range(1, len(events)):
        slot = events[i] // width
        if slot != events[i - 1] // width and slot != slots[task]:
            area = state.area_within(events[i - 1] + 1, slot * width + task, size)
            if area > 0:
                found.append((-area, slot))
    return [(slot, -area) for area, slot in sorted(found)[: TUNING.remat_gaps]]


def bundle(
    state: ScheduleState, task: int, slot: int, policy: int, price: float, banned: Collection[int] = ()
) -> dict[int, int]:
    """Rematerialize a task in a slot, and with it what the policy does not keep for it."""
    problem, no_slot, width = state.problem, state.no_slot, state.width
    change = {task: slot}
    stack = [task]
    while stack and len(change) < TUNING.remat_bundle:
        current = stack.pop()
        for value in problem.reads[current]:
            maker = state.maker[value]
            if change.get(maker, state.slots[maker]) <= slot:
                continue  # a copy runs before, and its value is kept until here
            end = state.lifetimes[value][0][1]
            if end >= slot * width + current or not problem.can_remat[maker] or maker in banned:
                continue
            if not _keeps(state, value, end, slot, policy, price):
                change[maker] = slot
                stack.append(maker)
    return settle(state, change) if any(state.slots[each] < no_slot for each in change) else change


def _keeps(state: ScheduleState, value: int, end: int, slot: int, policy: int, price: float) -> bool:
    """Whether a policy keeps a value from the end of its lifetime to a slot, rather than rematerialize it there."""
    size = state.problem.sizes[value]
    if policy == ROOM:
        return state.peak_within(end + 1, slot * state.width) + size <= state.budget_bytes
    if policy == PRICE:
        over_budget = state.over_budget_within(end + 1, slot * state.width)
        return price * size * over_budget < state.problem.cost_us[state.maker[value]]
    return policy == KEEP


def removal(state: ScheduleState, task: int) -> dict[int, int]:
    """Return the change that keeps a task's values instead of rematerializing them."""
    return settle(state, {task: state.no_slot})


def settle(state: ScheduleState, change: dict[int, int]) -> dict[int, int]:
    """Drop copies without readers after a change, and move the others to the first slot that still reads them."""
    problem, slots, no_slot = state.problem, state.slots, state.no_slot
    later = [-task for task, slot in change.items() if slot > slots[task]]
    heapq.heapify(later)
    while later:
        task = -heapq.heappop(later)
        for value in problem.reads[task]:
            maker = state.maker[value]
            slot = change.get(maker, slots[maker])
            if slot == no_slot:
                continue
            first = _first_reader(state, maker, slot, change)
            if first > slot:
                change[maker] = first
                heapq.heappush(later, -maker)
    return {task: slot for task, slot in change.items() if slot != slots[task]}


def _first_reader(state: ScheduleState, task: int, slot: int, change: Change) -> int:
    """Return the slot of the first reader of a task's copy; `no_slot` if it has none."""
    slots, no_slot = state.slots, state.no_slot
    first = no_slot
    for value in state.problem.makes[task]:
        for reader in state.readers[value]:
            if slot <= reader < first:
                first = reader
            copied = change.get(reader, slots[reader])
            # In the same slot the reader's copy runs later, because its task has the higher number.
            if slot <= copied < first:
                first = copied
    return first


def removal_moves(state: ScheduleState, task: int) -> Iterator[Move]:
    """Yield the move that keeps a task's values, if the task is rematerialized."""
    if state.slots[task] < state.no_slot:
        change = removal(state, task)
        yield Move(change, state.effect(change))


def remat_moves(
    state: ScheduleState, task: int, slot: int, price: float | None, banned: Collection[int] = ()
) -> Iterator[Move]:
    """Yield the moves that rematerialize a task in a slot, one for each policy that differs."""
    tried: list[Change] = []
    for policy in (KEEP, REMAT, ROOM) if price is None else (KEEP, REMAT, ROOM, PRICE):
        change = bundle(state, task, slot, policy, price or 0.0, banned)
        if len(change) >= TUNING.remat_bundle:
            continue
        if change not in tried:
            tried.append(change)
            yield Move(change, state.effect(change))
        elif policy == REMAT:
            break  # everything is in memory: there is nothing to decide
