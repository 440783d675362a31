"""Leeway: how far a step may stray from its course.

Two operations that run at once take the memory of both, and a variable that moves may come to lie in the way. So an
executor can be held to one operation after the other, and variables to where they are. But that costs time, about a
tenth of a step on two cores, for cores idle meanwhile and variables are copied. A step whose budget has room for it is
given leeway.
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
    """How many instances of a course may be under way at once."""
    most_of_peak: float
    """They may be so where all of them together take no more than this share of the peak of the course."""
    largest_in_place: float
    """Bytes of the largest variable that has to stay where it is."""


# From the fastest to what takes least.
LOOSE = Leeway(at_once=16, most_of_peak=math.inf, largest_in_place=256 << 10)
FIRM = Leeway(at_once=4, most_of_peak=0.92, largest_in_place=math.inf)
NONE = Leeway(at_once=1, most_of_peak=0.0, largest_in_place=math.inf)
TIGHTER = {LOOSE: FIRM, FIRM: NONE}

# Those under way at once make no more than this share of what the step takes on top, unless they are few.
_GROUP_SHARE, _FEW = 0.02, 3
# What cores lose that wait for each other all through a step, as a share of it: measured on two of them.
_IDLE = 0.05
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
    if leeway.most_of_peak == math.inf:
        return _in_groups(new, leeway.at_once, _GROUP_SHARE * (flood.peak_bytes - problem.base_bytes))
    # Before an instance there is what is in use while it runs, without what it makes; what it takes over counts twice.
    before = flood.bytes_in_use - new
    return _below(before, new, leeway.at_once, leeway.most_of_peak * flood.peak_bytes)


def _below(before: npt.NDArray[np.int64], new: npt.NDArray[np.int64], most: int, limit: float) -> list[int]:
    """So many at once where they stay below a limit."""
    sums = np.concatenate(([0], np.cumsum(new)))
    at_once = []
    for place in range(len(new)):
        first, behind = max(place - most + 1, 0), min(place + most, len(new))
        highest = int(before[first:behind].max() + sums[behind] - sums[first])
        at_once.append(most if highest <= limit else 1)
    return at_once


def _in_groups(new: npt.NDArray[np.int64], most: int, limit: float) -> list[int]:
    """Two groups at once: each begins when the last but one is done, which its last instance waits for.

    So each instance waits for one other only, however large the groups are.
    """
    at_once: list[int] = []
    done, last, first, made = -1, -1, 0, 0
    for place, size in enumerate(new.tolist()):
        made += size
        count = place - first + 1
        if count >= most or (count >= _FEW and made >= limit):
            at_once.append(1)
            done, last, first, made = last, place, place + 1, 0
        else:
            at_once.append(place - done)
    return at_once


def holding_us(problem: Problem, rewrite: Rewrite, leeway: Leeway) -> float:
    """How much longer a step takes that is held to its course."""
    copied = _BYTES_MOVED * sum(math.prod(shape) for _, shape in rewrite.in_place) / BYTES_PER_US
    return copied + (_IDLE * problem.total_us if leeway.at_once == 1 else 0.0)
