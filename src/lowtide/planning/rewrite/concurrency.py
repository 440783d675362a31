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
from typing import Any

import numpy as np
import numpy.typing as npt

from lowtide.planning.problem import Instance, Problem, measure
from lowtide.planning.rewrite.ancestors import Past
from lowtide.program.graph import Shape
from lowtide.simulator.costs import BYTES_PER_US


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
IDLE = 0.15
# Four bytes an element; whoever reads such a variable reads and writes a copy, and so does who writes it.
_BYTES_MOVED = 4 * 4


def instances_at_once(
    problem: Problem, course: Sequence[Instance], leeway: Leeway, past: Past[Any] | None = None
) -> list[int]:
    """How many instances may be under way when each of a course runs: 1 where all in front of it have to be done.

    `past` knows who waits for whom anyway; without it anybody might run beside anybody.
    """
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
    return _below(before, new, leeway, limit, past or Past(range(len(course)), {}))


def _below(
    before: npt.NDArray[np.int64], new: npt.NDArray[np.int64], leeway: Leeway, limit: float, past: Past[Any]
) -> list[int]:
    """So many at once that they stay below a limit, whichever of them are done and whichever are not.

    Whoever is not done yet and first in the course, there is at most what is there before it, and what is made by it
    and by all after it that can run while it is not done.
    """
    counts = []
    highest = before + new
    """If the instance at a place is the first that is not done, and all run that can."""
    for place in range(len(new)):
        start = max(0, place - leeway.at_once + 1)
        beside = ~past.done(place)[-(place - start) :] if place > start else np.zeros(0, np.bool_)
        above = np.flatnonzero(beside & (highest[start:place] + new[place] > limit))
        first = start + (int(above[-1]) + 1 if len(above) else 0)
        counts.append(max(place - first + 1, min(leeway.fewest, place + 1)))
        past.settle(place, counts[-1])
        # Of those it waits for all are done when it makes something.
        beside[: place - start - counts[-1] + 1] = False
        highest[start:place][beside] += new[place]
    return counts


def holding_us(
    problem: Problem, course: Sequence[Instance], counts: Sequence[int], in_place: Sequence[tuple[str, Shape]]
) -> float:
    """How much longer a step takes that is held to its course, so many of which may be under way at once."""
    copied = _BYTES_MOVED * sum(math.prod(shape) for _, shape in in_place) / BYTES_PER_US
    alone = sum(problem.cost_us[max(each, ~each)] for each, count in zip(course, counts, strict=True) if count == 1)
    return copied + IDLE * alone
