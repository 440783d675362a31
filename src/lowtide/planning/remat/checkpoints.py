"""Where to begin a search: hold what crosses a few cuts of the forward pass, and compute everything else again."""

from __future__ import annotations

import math

import numpy as np

from lowtide.planning.problem import Problem, measure

# A cut may move by this part of a segment, to where less crosses it.
_ROOM = 0.3


def square_root(problem: Problem) -> int:
    """How many segments the rule of thumb makes: the square root of the number of tasks that could run again."""
    return max(1, round(math.sqrt(sum(problem.recomputable[: turning_point(problem) + 1]))))


def turning_point(problem: Problem) -> int:
    """The task at which most is in use when nothing is computed again: about where the forward pass ends."""
    return int(np.argmax(measure(problem, range(len(problem))).bytes_in_use))


def segments(problem: Problem, count: int, turn: int) -> list[int]:
    """The slots of a course that holds what crosses `count` - 1 cuts, and computes all else again from there."""
    never = len(problem)
    readers = problem.readers()
    held = _crossing(problem, _cuts(problem, count, turn), turn)
    slots = [never] * never
    for task in range(turn, -1, -1):
        if problem.recomputable[task] and task not in held:
            late = (
                reader if reader > turn else slots[reader] for value in problem.makes[task] for reader in readers[value]
            )
            slots[task] = min(late, default=never)
    return slots


def _cuts(problem: Problem, count: int, turn: int) -> list[int]:
    """Cuts that share out the bytes that wait for the backward pass, each where little crosses it."""
    waiting = np.zeros(turn + 1)
    crossing = np.zeros(turn + 1, np.int64)
    for maker, readers, size in zip(problem.makers(), problem.readers(), problem.sizes, strict=True):
        if maker <= turn:
            if readers and readers[-1] > turn:
                waiting[maker] += size
            crossing[maker] += size
            crossing[_last_forward(maker, readers, turn)] -= size
    crossing, share = np.cumsum(crossing), np.cumsum(waiting)
    cuts = []
    for part in range(1, count):
        ideal, low, high = (
            int(place)
            for place in np.searchsorted(share, share[-1] * np.array((part, part - _ROOM, part + _ROOM)) / count)
        )
        window = crossing[low : max(low + 1, high)]
        if len(window):
            narrow = low + np.flatnonzero(window == window.min())
            cuts.append(int(narrow[np.argmin(np.abs(narrow - ideal))]))
    return cuts


def _crossing(problem: Problem, cuts: list[int], turn: int) -> set[int]:
    """The tasks whose values the forward pass reads behind a cut."""
    held = set()
    for maker, readers in zip(problem.makers(), problem.readers(), strict=True):
        last = _last_forward(maker, readers, turn)
        if any(maker <= cut < last for cut in cuts):
            held.add(maker)
    return held


def _last_forward(maker: int, readers: list[int], turn: int) -> int:
    return max((reader for reader in readers if reader <= turn), default=maker)
