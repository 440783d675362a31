"""Concurrency: how far the execution of a step may deviate from its schedule.

Two operations that run at once use the memory of both, and a variable that moves may fragment the allocator's memory.
So control edges can force one operation after the other, and variables can be kept in place. That costs time, an
eighth to a quarter of a step on two cores, because cores are idle and variables are copied. A step with enough memory
is given concurrency: as many operations may run at once as memory has room for if all their outputs were alive
together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.planning.memory_profile import Bytes, profile_schedule
from lowtide.planning.problem import Instance, PlanningProblem
from lowtide.planning.rewrite.ancestors import Ancestors
from lowtide.planning.tuning import TUNING
from lowtide.program.graph import Shape
from lowtide.simulator.costs import BYTES_PER_US


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How much a step may deviate from its schedule."""

    at_once: int
    """How many instances may run at once where memory has room for all that they make."""
    fewest: int
    """How many may always run at once."""
    share: float
    """The room, as a share of what the schedule allocates above `base_bytes`."""
    largest_in_place: float
    """Bytes of the largest variable that has to stay in place."""


# From the fastest to the one that needs least memory.
LOOSE = Concurrency(TUNING.window, TUNING.loose_running, TUNING.loose_share, TUNING.loose_in_place_bytes)
FIRM = Concurrency(TUNING.window, fewest=1, share=TUNING.firm_share, largest_in_place=math.inf)
NONE = Concurrency(at_once=1, fewest=1, share=0.0, largest_in_place=math.inf)
STRICTER = {LOOSE: FIRM, FIRM: NONE}

# Four bytes an element. An in-place variable is copied when it is read and when it is written: two reads, two writes.
_BYTES_MOVED = 4 * 4


def running_limits(
    problem: PlanningProblem,
    schedule: Sequence[Instance],
    concurrency: Concurrency,
    ancestors: Ancestors[Any] | None = None,
) -> list[int]:
    """Return how many instances may run at once when each one starts: 1 where all earlier ones must have finished.

    `ancestors` knows which instances wait for each other anyway; without it any two might run at once.
    """
    if concurrency.at_once == 1:
        return [1] * len(schedule)
    profile = profile_schedule(problem, schedule)
    tasks = [max(instance, ~instance) for instance in schedule]
    new = np.array(
        [sum(problem.sizes[value] for value in problem.makes[task]) + problem.workspace[task] for task in tasks],
        np.int64,
    )
    # What is in use before an instance is what is in use while it runs, without what it makes. It reuses the buffer of
    # an input only if no other instance is about to read that.
    before = profile.bytes_in_use + profile.reused_bytes - new
    limit = problem.base_bytes + concurrency.share * (profile.peak_bytes - problem.base_bytes)
    return _limits_below(before, new, concurrency, limit, ancestors or Ancestors(range(len(schedule)), {}))


def _limits_below(
    before: Bytes, new: Bytes, concurrency: Concurrency, limit: float, ancestors: Ancestors[Any]
) -> list[int]:
    """Return limits that keep memory below `limit`, whichever instances have finished and whichever have not.

    If an instance is the first one that has not finished, at most this is in use: what is in use before it, and what
    is made by it and by all later ones that can run meanwhile.
    """
    counts = []
    highest = before + new
    """The bytes in use if the instance at a position is the first unfinished one, and all run that can."""
    for position in range(len(new)):
        start = max(0, position - concurrency.at_once + 1)
        beside = np.zeros(0, np.bool_)
        if position > start:
            beside = ~ancestors.finished_before(position)[-(position - start) :]
        above = np.flatnonzero(beside & (highest[start:position] + new[position] > limit))
        first = start + (int(above[-1]) + 1 if len(above) else 0)
        counts.append(max(position - first + 1, min(concurrency.fewest, position + 1)))
        ancestors.record(position, counts[-1])
        # The instances that it waits for have finished when it allocates.
        beside[: position - start - counts[-1] + 1] = False
        highest[start:position][beside] += new[position]
    return counts


def ordering_cost_us(
    problem: PlanningProblem,
    schedule: Sequence[Instance],
    limits: Sequence[int],
    in_place: Sequence[tuple[str, Shape]],
) -> float:
    """Return the extra time of a step whose order is enforced with these limits and in-place assignments."""
    copied = _BYTES_MOVED * sum(math.prod(shape) for _, shape in in_place) / BYTES_PER_US
    alone = sum(problem.cost_us[max(each, ~each)] for each, limit in zip(schedule, limits, strict=True) if limit == 1)
    return copied + TUNING.idle_share * alone
