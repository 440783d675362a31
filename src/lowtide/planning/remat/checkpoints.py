"""Checkpointed schedules to start from: keep what crosses a few cuts of the forward pass, rematerialize the rest."""

from __future__ import annotations

import math

import numpy as np

from lowtide.planning.memory_profile import bytes_in_use, profile_schedule
from lowtide.planning.problem import PlanningProblem
from lowtide.planning.tuning import TUNING


def square_root(problem: PlanningProblem) -> int:
    """Return how many segments square-root checkpointing has: the root of the number of forward tasks."""
    return max(1, round(math.sqrt(sum(problem.can_remat[: turning_point(problem) + 1]))))


def turning_point(problem: PlanningProblem) -> int:
    """Return the task at the peak of the plain schedule: about where the forward pass ends."""
    return int(np.argmax(profile_schedule(problem, range(len(problem))).bytes_in_use))


def segments(problem: PlanningProblem, count: int, turn: int) -> list[int]:
    """Return the slots of a schedule that keeps what crosses `count` - 1 cuts and rematerializes all else."""
    no_slot = len(problem)
    held = _crossing(problem, _cuts(problem, count, turn), turn)
    slots = [no_slot] * no_slot
    for task in range(turn, -1, -1):
        if problem.can_remat[task] and task not in held:
            late = (
                reader if reader > turn else slots[reader]
                for value in problem.makes[task]
                for reader in problem.readers[value]
            )
            slots[task] = min(late, default=no_slot)
    return slots


def _cuts(problem: PlanningProblem, count: int, turn: int) -> list[int]:
    """Return cuts that divide the bytes kept for the backward pass evenly, each where few bytes cross it."""
    forward = [value for value, maker in enumerate(problem.makers) if maker is not None and maker <= turn]
    makers = [_maker(problem, value) for value in forward]
    lasts = [_last_forward(problem, value, turn) for value in forward]
    sizes = [problem.sizes[value] for value in forward]
    waiting = np.zeros(turn + 1)
    for value, maker, size in zip(forward, makers, sizes, strict=True):
        readers = problem.readers[value]
        if readers and readers[-1] > turn:
            waiting[maker] += size
    crossing = bytes_in_use(makers, [last - 1 for last in lasts], sizes, turn + 1)
    share = np.cumsum(waiting)
    cuts = []
    for part in range(1, count):
        wanted = np.array((part, part - TUNING.checkpoint_play, part + TUNING.checkpoint_play))
        ideal, low, high = (int(place) for place in np.searchsorted(share, share[-1] * wanted / count))
        window = crossing[low : max(low + 1, high)]
        if len(window):
            narrow = low + np.flatnonzero(window == window.min())
            cuts.append(int(narrow[np.argmin(np.abs(narrow - ideal))]))
    return cuts


def _crossing(problem: PlanningProblem, cuts: list[int], turn: int) -> set[int]:
    """Return the tasks whose values the forward pass reads behind a cut."""
    held = set()
    for value in range(len(problem.sizes)):
        maker, last = _maker(problem, value), _last_forward(problem, value, turn)
        if any(maker <= cut < last for cut in cuts):
            held.add(maker)
    return held


def _maker(problem: PlanningProblem, value: int) -> int:
    maker = problem.makers[value]
    assert maker is not None  # variables are no values of a remat problem
    return maker


def _last_forward(problem: PlanningProblem, value: int, turn: int) -> int:
    """Return the last task of the forward pass that reads a value, or its maker."""
    return max((reader for reader in problem.readers[value] if reader <= turn), default=_maker(problem, value))
