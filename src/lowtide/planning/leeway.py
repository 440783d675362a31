"""Leeway: how far a step may stray from its course.

Two operations that run at once take the memory of both, and a variable that moves may come to lie in the way. So an
executor can be held to one operation after the other, and variables to where they are. But that costs time, an eighth
to a quarter of a step on two cores, for cores idle meanwhile and variables are copied. A step that has room for it is
given leeway: as many operations may be under way as memory has room for, if all of them came to lie there together.
Where there is no room each waits for all before it, and where there is much they hardly wait at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowtide.planning.problem import Instance, Problem, measure
from lowtide.planning.rewrite import Rewrite
from lowtide.tide.cost import BYTES_PER_US


@dataclass(frozen=True, slots=True)
class Leeway:
    """How much freedom a step has."""

    at_once: int
    """How many instances of a course may be under way at once, where memory has room for all they make."""
    fewest: int
    """How many may be so, room or not."""
    share: float
    """Room: what the course takes on top of what is there anyway, times this."""
    largest_in_place: float
    """Bytes of the largest variable that has to stay where it is."""


# From the fastest to what takes least.
LOOSE = Leeway(at_once=256, fewest=3, share=1.1, largest_in_place=256 << 10)
FIRM = Leeway(at_once=256, fewest=1, share=0.97, largest_in_place=math.inf)
NONE = Leeway(at_once=1, fewest=1, share=0.0, largest_in_place=math.inf)
TIGHTER = {LOOSE: FIRM, FIRM: NONE}

# What cores lose while one instance has to be done before the next begins, as a share of its time: measured on two of
# them, it is 12 to 26% of a whole step.
_IDLE = 0.15
# Four bytes an element; whoever reads such a variable reads and writes a copy, and so does who writes it.
_BYTES_MOVED = 4 * 4


def instances_at_once(problem: Problem, course: Sequence[Instance], leeway: Leeway) -> list[int]:
    """How many instances may be under way when each of a course runs: 1 where all in front of it have to be done."""
    if leeway.at_once == 1:
        return [1] * len(course)
    flood = measure(problem, course)
    tasks = [max(instance, ~instance) for instance in course]
    new = np.array(
        [sum(problem.sizes[value] for value in problem.makes[task]) + problem.workspace[task] for task in tasks],
        np.int64,
    )
    # Before an instance there is what is in use while it runs, without what it makes. It takes the place of something
    # that it reads only if nobody else is about to read that.
    before = flood.bytes_in_use + flood.taken_bytes - new
    limit = problem.base_bytes + leeway.share * (flood.peak_bytes - problem.base_bytes)
    counts = _below(before, new, leeway.at_once, limit)
    return [max(count, min(leeway.fewest, place + 1)) for place, count in enumerate(counts)]


def _below(before: npt.NDArray[np.int64], new: npt.NDArray[np.int64], most: int, limit: float) -> list[int]:
    """So many at once that they stay below a limit, whichever of them are done and whichever are not.

    Whoever is not done yet and first in the course, there is at most what is there before it, and what is made from it
    up to the last that runs. The sum grows with either end, so nobody may begin earlier than the one in front of it.
    """
    sums = np.concatenate(([0], np.cumsum(new)))
    at_once = []
    first = 0
    for place in range(len(new)):
        first = max(first, place - most + 1)
        highest = before[first:place] + (sums[place + 1] - sums[first:place])
        above = np.flatnonzero(highest > limit)
        first += int(above[-1]) + 1 if len(above) else 0
        at_once.append(place - first + 1)
    return at_once


def holding_us(problem: Problem, course: Sequence[Instance], rewrite: Rewrite, leeway: Leeway) -> float:
    """How much longer a step takes that is held to its course."""
    copied = _BYTES_MOVED * sum(math.prod(shape) for _, shape in rewrite.in_place) / BYTES_PER_US
    counts = instances_at_once(problem, course, leeway)
    alone = sum(problem.cost_us[max(each, ~each)] for each, count in zip(course, counts, strict=True) if count == 1)
    return copied + _IDLE * alone
